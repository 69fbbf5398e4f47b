internal import Glibc
internal import SharedBreaker

/// The fleet's server as a relay uses it: every query and every change of the protocol.
final class FleetServer {
  private let connection: RedisConnection
  private let context: RelayContext
  private let beatScript: String
  private let evidenceScript: String
  private let commandScript: String
  private let forgetScript: String
  private let leaveScript: String

  /// The server's clock when the connection began.
  let clock: ServerClock

  /// What the server answers to a beat.
  struct Beat {
    var now: Int64
    var epoch: String
    var number: Int64
    var hostsSeen: Int
  }

  /// For how many milliseconds a host may always be silent before it counts as gone.
  static let shortestSilence: Int64 = 15_000

  init(_ context: RelayContext) throws(RelayTrouble) {
    self.context = context
    let (connection, names, clock) = try served { () throws(RedisError) in
      let connection = try RedisConnection.primary(
        of: context.options.address, patience: RelayContext.patience,
        trying: context.sentinels?.takeFavourite())
      let answers = try connection.ask(
        [["ROLE"]] + FleetScripts.all.map { ["SCRIPT", "LOAD", $0] } + [["TIME"]])
      // A replica that permits writes would take them and lose them.
      try ServerRole(answers[0]).check()
      let names = try answers.dropFirst().dropLast().map { answer throws(RedisError) in
        if case .error(let text) = answer { throw RedisError(answer: text) }
        guard let name = answer.text else { throw .unexpected("SCRIPT LOAD") }
        return name
      }
      guard let now = answers.last.flatMap({ ServerClock.milliseconds($0) }) else {
        throw .unexpected("TIME")
      }
      return (connection, names, ServerClock(milliseconds: now))
    }
    self.clock = clock
    self.connection = connection
    (beatScript, evidenceScript) = (names[0], names[1])
    (commandScript, forgetScript, leaveScript) = (names[2], names[3], names[4])
  }

  /// Where the server is, also if sentinels have named it.
  var address: RedisAddress { connection.address }

  private var keys: FleetKeys { context.keys }
  private var options: RelayOptions { context.options }

  /// Sends commands in one piece, and throws if any answer is an error.
  private func ask(_ commands: [[String]]) throws(RelayTrouble) -> [RedisReply] {
    guard !commands.isEmpty else { return [] }
    return try served { () throws(RedisError) in
      let answers = try connection.ask(commands)
      for answer in answers {
        if case .error(let text) = answer { throw RedisError(answer: text) }
      }
      return answers
    }
  }

  /// Sends any number of commands, in pieces that the server answers in time.
  private func askInPieces(_ commands: [[String]]) throws(RelayTrouble) -> [RedisReply] {
    var answers: [RedisReply] = []
    for start in stride(from: 0, to: commands.count, by: 500) {
      answers += try ask(Array(commands[start..<min(start + 500, commands.count)]))
    }
    return answers
  }
}

extension FleetServer {
  /// Shows that this host is alive.
  ///
  /// - Throws: `RelayTrouble.nameTaken` if another relay works under its name.
  func beat(
    lineage: String, _ description: HostText, sentAt: Int64, isKnown: Bool, silence: Int64
  ) throws(RelayTrouble) -> Beat {
    var words = [
      "EVALSHA", beatScript, "5", keys.count, keys.epoch, keys.hosts,
      keys.host(options.host), keys.stream, options.host, description.plain, lineage, context.run,
      String(silence), Self.newEpoch(), isKnown ? "1" : "0", String(sentAt),
    ]
    if let read = description.position {
      words += [read.epoch, String(read.number), read.entry, description.text]
    }
    let answer = try ask([words])[0]
    guard let parts = answer.elements else { throw .unexpected("a beat") }
    if parts.first?.text == "taken" { throw .nameTaken(options.host) }
    guard parts.count == 4, let now = parts[0].number(upTo: ServerClock.latest),
      let epoch = parts[1].text, let hosts = parts[3].number(upTo: 1_000_000_000)
    else { throw .unexpected("a beat") }
    let number = parts[2].number(upTo: FleetCommand.highestStamp - 1) ?? 0
    return Beat(now: now, epoch: epoch, number: number, hostsSeen: max(1, Int(hosts)))
  }

  private static func newEpoch() -> String {
    String(UInt64.random(in: .min ... .max), radix: 16)
  }

  /// Reads the state of the fleet.
  func state() throws(RelayTrouble) -> FleetState {
    let questions = [["MULTI"]] + FleetState.questions(keys) + [["EXEC"]]
    guard let answers = try ask(questions).last?.elements else { throw .unexpected("EXEC") }
    var state = try served { () throws(RedisError) in try FleetState(answers) }
    try scan(keys.commands) { state.take(commands: $0) }
    try scan(keys.evidence) { state.take(evidence: $0) }
    return state
  }

  /// Reads a hash in pieces that the server answers in time.
  private func scan(
    _ key: String, _ take: ([(field: RedisReply, value: RedisReply)]) -> Void
  ) throws(RelayTrouble) {
    var cursor = "0"
    repeat {
      let answer = try ask([["HSCAN", key, cursor, "COUNT", "1000"]])[0].elements
      guard let answer, answer.count == 2, let next = answer[0].text, let pairs = answer[1].pairs
      else { throw .unexpected("HSCAN") }
      context.manager.showLife()
      take(pairs)
      cursor = next
    } while cursor != "0"
  }

  /// Deletes evidence that is out of date.
  func forget(_ evidence: [RedisReply]) throws(RelayTrouble) {
    for start in stride(from: 0, to: evidence.count, by: 1_000) {
      let words = evidence[start..<min(start + 1_000, evidence.count)].compactMap(\.text)
      _ = try ask([["EVALSHA", forgetScript, "1", keys.evidence] + words])
    }
  }

  /// Publishes messages about breakers.
  func tell(_ messages: [FleetMessage]) throws(RelayTrouble) {
    _ = try askInPieces(
      messages.compactMap { message in
        let (kind, time): (String, Duration) =
          switch message.content {
          case .open(let time): ("open", time)
          case .recovered: ("recovered", .zero)
          case .closed: ("closed", .zero)
          case .command: ("", .zero)
          }
        if kind.isEmpty { return nil }
        return [
          "EVALSHA", evidenceScript, "3", keys.stream, keys.count, keys.evidence,
          String(options.maximumStream), kind, message.host, message.lineage, message.name,
          String(message.generation), String(DurationText.milliseconds(time)),
        ]
      })
  }

  /// The result of publishing a command.
  enum Telling: Hashable {
    case told

    /// A later command from another host takes precedence, so this one was not published.
    case overtaken(by: String)

    /// It cannot go out for now, for this reason.
    case refused(String)
  }

  private static let isAhead =
    "it seems to be from tomorrow or later: set the clock of this host, or that of the server"

  private static let isTooLarge =
    "it has more than \(FleetMessage.longest) bytes, which no host reads: give a shorter one"

  /// Publishes commands.
  func tell(
    _ commands: [FleetCommand], lineage: String
  ) throws(RelayTrouble) -> [Telling] {
    let answers = try askInPieces(
      commands.filter { !Self.isTooLarge($0) }.map { command in
        let words = [
          "EVALSHA", commandScript, "3", keys.stream, keys.count, keys.commands,
          String(options.maximumStream), command.host, lineage, command.name,
          String(command.stamp), CommandText.text(of: command),
          String(DurationText.milliseconds(command.age)), String(FleetMessage.ownTime),
        ]
        return command.byAspect.sorted { $0.key < $1.key }.reduce(into: words) { words, part in
          words += [part.key, CommandText.text(of: part.value)]
        }
      })
    var rest = answers[...]
    return commands.map { command in
      if Self.isTooLarge(command) { return .refused(Self.isTooLarge) }
      return switch rest.popFirst()?.text {
      case nil, "": .told
      case "!": .refused(Self.isAhead)
      case let host?: .overtaken(by: host)
      }
    }
  }

  /// Whether other hosts would refuse the message because of its size.
  private static func isTooLarge(_ command: FleetCommand) -> Bool {
    // The other fields of a message have far fewer bytes.
    CommandText.text(of: command).utf8.count + command.name.utf8.count
      > FleetMessage.longest - 1_024
  }

  /// Replaces the list of commands that this host has refused; nil if there are none.
  func describe(refusals text: String?) throws(RelayTrouble) {
    let key = keys.host(options.host)
    let field = FleetKeys.refusalsField
    _ = try ask([text.map { ["HSET", key, field, $0] } ?? ["HDEL", key, field]])
  }

  /// Replaces the descriptions of the host and of all its breakers.
  func describe(_ description: String, _ breakers: [FleetBreaker]) throws(RelayTrouble) {
    let key = keys.host(options.host)
    let fields = breakers.map { ["HSET", key, $0.name, $0.text] }
    _ = try ask([
      ["MULTI"], ["DEL", key], ["HSET", key, FleetKeys.ownField, description],
      ["EXPIRE", key, "86400"], ["EXEC"],
    ])
    _ = try askInPieces(fields)
  }

  /// Changes the descriptions of some of the host's breakers; nil removes one.
  func describe(_ breakers: [String: FleetBreaker?]) throws(RelayTrouble) {
    let key = keys.host(options.host)
    _ = try askInPieces(
      breakers.map { name, breaker in
        breaker.map { ["HSET", key, name, $0.text] } ?? ["HDEL", key, name]
      })
  }

  /// Removes the description of the host, so that it does not count as silent.
  func leave() throws(RelayTrouble) {
    let host = options.host
    _ = try ask([
      ["EVALSHA", leaveScript, "2", keys.hosts, keys.host(host), host, context.run]
    ])
  }
}

/// The stream of a fleet's messages, on a connection of its own.
final class FleetStream {
  private let connection: RedisConnection
  private let key: String
  private var askedAt = ContinuousClock.now

  /// How long the server waits for messages before it answers that there are none.
  private static let wait = Duration.seconds(5)

  /// An entry of the stream, as the server keeps it.
  struct Entry {
    var name: String

    /// When the server received it, in milliseconds of its clock.
    var time: Int64

    /// The number in the message; nil if there is none.
    var number: Int64?
    var fields: RedisReply
  }

  init(_ context: RelayContext, at address: RedisAddress) throws(RelayTrouble) {
    key = context.keys.stream
    connection = try served { () throws(RedisError) in
      try RedisConnection(to: address, patience: RelayContext.patience)
    }
  }

  /// What to wait for before something can have arrived.
  var awaited: pollfd {
    pollfd(fd: connection.descriptor, events: Int16(connection.awaited), revents: 0)
  }

  /// When the server has to have answered.
  var deadline: ContinuousClock.Instant { askedAt + Self.wait + RelayContext.patience }

  /// Checks that the server lets this host read the stream.
  func check(after entry: String) throws(RelayTrouble) {
    _ = try served { () throws(RedisError) in
      try connection.ask(["XREAD", "COUNT", "1", "STREAMS", key, entry])
    }
  }

  /// Asks for what comes after an entry.
  func ask(after entry: String) throws(RelayTrouble) {
    askedAt = .now
    let words = [
      "XREAD", "COUNT", "1000", "BLOCK", String(Self.wait.components.seconds * 1_000), "STREAMS",
      key, entry,
    ]
    try served { () throws(RedisError) in try connection.send(words) }
  }

  /// Returns what has arrived; nil if the server has not answered yet.
  func arrived() throws(RelayTrouble) -> [Entry]? {
    try served { () throws(RedisError) in
      guard let answer = try connection.answers().first else { return nil }
      switch answer {
      case .nothing: return []
      case .error(let text): throw RedisError(answer: text)
      default: break
      }
      guard let entries = answer.elements?.first?.elements?.last?.elements else {
        throw .unexpected("XREAD")
      }
      return try entries.map { entry throws(RedisError) in try Self.entry(entry) }
    }
  }

  private static func entry(_ reply: RedisReply) throws(RedisError) -> Entry {
    guard let parts = reply.elements, parts.count == 2, let name = parts[0].text
    else { throw .unexpected("XREAD") }
    // An impossible time counts as one in the future, so that nothing counts as old because of it.
    let time = ServerClock.time(name.prefix { $0 != "-" }) ?? ServerClock.latest
    let number = parts[1].pairs?.first { $0.field.text == "n" }?.value
      .number(upTo: FleetCommand.highestStamp)
    return Entry(name: name, time: time, number: number, fields: parts[1])
  }
}

/// Uses the server; an error of it becomes the relay's trouble.
private func served<Result>(
  _ body: () throws(RedisError) -> Result
) throws(RelayTrouble) -> Result {
  do { return try body() } catch { throw .redis(error) }
}
