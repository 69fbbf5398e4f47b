internal import Glibc
@_spi(Relay) internal import ProgramKit
@_spi(Relay) internal import SharedBreaker

/// The fleet's server as a relay uses it: every query and every change of the protocol.
final class FleetServer {
  private let connection: RedisConnection
  let context: RelayContext
  let beatScript: String
  private let evidenceScript: String
  private let commandScript: String
  private let forgetScript: String
  private let leaveScript: String
  private let clearScript: String
  private let scanScript: String

  /// The digest of this host's mark on the server, as far as this relay knows it.
  var markDigest = ""

  /// The server's clock when the connection began.
  let clock: ServerClock

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
    (clearScript, scanScript) = (names[5], names[6])
    // Without a key they may be another program's, which may have had them before.
    if context.authority.isOn { try clearStrangeKeys() }
  }

  /// Where the server is, also if sentinels have named it.
  var address: RedisAddress { connection.address }

  var keys: FleetKeys { context.keys }
  var options: RelayOptions { context.options }

  /// Sends commands in one piece, and throws if any answer is an error.
  func ask(_ commands: [[String]]) throws(RelayTrouble) -> [RedisReply] {
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
  /// Deletes the keys that no relay can have written, because of their types or sizes.
  private func clearStrangeKeys() throws(RelayTrouble) {
    let types = [
      (keys.stream, "stream"), (keys.count, "text"), (keys.epoch, "text"),
      (keys.commands, "hash"), (keys.evidence, "hash"),
      (keys.hosts, "set"), (keys.host(options.host), "host"),
    ]
    let words = ["EVALSHA", clearScript, String(types.count)] + types.map(\.0) + types.map(\.1)
    for key in try ask([words])[0].elements ?? [] {
      let name = OutsideText.quoted(key.text ?? "")
      context.refuse(
        Refusal(
          .forged, "the key \(name) had a type or a size that no relay gives it, and was deleted"))
    }
  }

  /// Reads the state of the fleet, for a host that knows some commands.
  func state(knowing own: [FleetCommand]) throws(RelayTrouble) -> FleetState {
    let questions = [["MULTI"]] + FleetState.questions(keys) + [["EXEC"]]
    guard let answers = try ask(questions).last?.elements else { throw .unexpected("EXEC") }
    var state = try served { () throws(RedisError) in
      try FleetState(answers, knowing: own, believing: context.authority)
    }
    try scan(keys.commands) { state.take(commands: $0) }
    try scan(keys.evidence) { state.take(evidence: $0) }
    return state
  }

  /// Reads a hash in pieces that the server answers in time.
  private func scan(
    _ key: String, _ take: ([(field: RedisReply, value: RedisReply)]) -> Void
  ) throws(RelayTrouble) {
    var cursor = "0"
    let longest = String(FleetMessage.longest + 4_096)
    repeat {
      // Without a key it may be another program's hash.
      let words =
        context.authority.isOn
        ? ["EVALSHA", scanScript, "1", key, cursor, "1000", longest]
        : ["HSCAN", key, cursor, "COUNT", "1000"]
      let answer = try ask([words])[0].elements
      guard let answer, answer.count >= 2, let next = answer[0].text, let pairs = answer[1].pairs
      else { throw .unexpected("HSCAN") }
      if answer.count > 2, let deleted = answer[2].number(upTo: .max), deleted > 0 {
        let values = CountedNoun.text(Int(deleted), "value")
        context.refuse(
          Refusal(.forged, "\(values) in '\(key)' had a size that no relay gives it: deleted"))
      }
      context.manager.showLife()
      take(pairs)
      cursor = next
    } while cursor != "0"
  }

  /// Deletes evidence that is out of date.
  func forgetPast(in state: FleetState) throws(RelayTrouble) {
    let evidence = state.pastEvidence
    for start in stride(from: 0, to: evidence.count, by: 1_000) {
      let words = evidence[start..<min(start + 1_000, evidence.count)].compactMap(\.text)
      _ = try ask([["EVALSHA", forgetScript, "1", keys.evidence] + words])
    }
  }

  /// Publishes messages about breakers.
  func tell(_ messages: [FleetMessage], at now: Int64) throws(RelayTrouble) {
    _ = try askInPieces(
      messages.compactMap { message in
        guard let fields = message.fields(sentAt: now), let kind = fields["k"] else { return nil }
        let words = [
          "EVALSHA", evidenceScript, "3", keys.stream, keys.count, keys.evidence,
          String(options.maximumStream), kind, message.host, message.lineage, message.name,
          String(message.generation), fields["r"] ?? "0",
        ]
        let seal = context.authority.seal(fields: fields)
        let proof = seal.map { [String(now), $0] } ?? ["", ""]
        return words + proof + ["a", "e", "w"].map { fields[$0] ?? "" }
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

  /// Publishes commands: those of this host, and those of others with the seals that these have given.
  func tell(
    _ commands: [FleetCommand], lineage: String, at now: Int64
  ) throws(RelayTrouble) -> [Telling] {
    let signed = commands.map { command in
      command.host == options.host
        ? context.authority.signed(vouched(command, at: now), at: now) : command
    }
    var tellings = signed.map { refusal(of: $0, at: now).map { Telling.refused($0) } }
    var ways = signed.map { CommandWay($0, lineage: lineage, at: now) }
    // Each time around, another relay or an attacker has been faster.
    for _ in 0..<Self.attempts {
      let open = tellings.indices.filter { tellings[$0] == nil }
      guard !open.isEmpty else { break }
      let answers = try askInPieces(
        open.map { place in
          ["EVALSHA", commandScript, "3", keys.stream, keys.count, keys.commands]
            + ways[place].words(atMost: options.maximumStream)
        })
      for (place, answer) in zip(open, answers) {
        tellings[place] = ways[place].judge(answer, at: now, context)
      }
    }
    return tellings.map { $0 ?? .refused(Self.isContested) }
  }

  private static let attempts = 8

  private static let isContested =
    "another client keeps writing something in its place on the server"

  /// A command of this host with the user whom its relay has seen giving it.
  ///
  /// All users of the store can write to it, so a user who is known from it counts only if this
  /// fleet's key has signed it.
  private func vouched(_ command: FleetCommand, at now: Int64) -> FleetCommand {
    let isProven =
      command.isProven && (try? context.authority.checked(command, at: now))?.isProven ?? false
    var command = command
    command.verifiedUser =
      isProven ? command.verifiedUser : context.givers.user(of: command)
    return command
  }

  /// Why a command cannot go out; nil if it can.
  private func refusal(of command: FleetCommand, at now: Int64) -> String? {
    let authority = context.authority
    if Self.isTooLarge(command) { return Self.isTooLarge }
    if command.stamp > now + 86_400_000 { return Self.isAhead }
    if command.host == options.host {
      if let complaint = authority.complaint(aboutCommandsOf: command.host) { return complaint }
    }
    do throws(Refusal) {
      _ = try authority.checked(command, at: now)
      return nil
    } catch {
      return error.kind == .authority
        ? error.description
        : "it names host \(command.host), which has not signed it: give it again"
    }
  }

  /// Whether other hosts would refuse the message because of its size.
  private static func isTooLarge(_ command: FleetCommand) -> Bool {
    // The other fields of a message have far fewer bytes.
    CommandText.text(of: command).utf8.count + command.name.utf8.count
      > FleetMessage.longest - 1_024
  }

  func signed(_ mark: HostMark, of host: String? = nil) -> String {
    context.authority.sealed(mark.text, .host, [host ?? options.host])
  }

  private func signed(_ breaker: FleetBreaker) -> String {
    context.authority.sealed(breaker.text, .breaker, [options.host, breaker.name])
  }

  /// Replaces the descriptions of the host and of all its breakers.
  func describe(_ mark: HostMark, _ breakers: [FleetBreaker]) throws(RelayTrouble) {
    let key = keys.host(options.host)
    let fields = breakers.map { ["HSET", key, $0.name, signed($0)] }
    let text = signed(mark)
    _ = try ask([
      ["MULTI"], ["DEL", key], ["HSET", key, FleetKeys.ownField, text],
      ["EXPIRE", key, "86400"], ["EXEC"],
    ])
    markDigest = ServerDigest.text(of: text)
    _ = try askInPieces(fields)
  }

  /// Changes the descriptions of some of the host's breakers; nil removes one.
  func describe(_ breakers: [String: FleetBreaker?]) throws(RelayTrouble) {
    let key = keys.host(options.host)
    _ = try askInPieces(
      breakers.map { name, breaker in
        breaker.map { ["HSET", key, name, signed($0)] } ?? ["HDEL", key, name]
      })
  }

  /// Says farewell, so that no host waits for this one.
  func leave(_ mark: HostMark) throws(RelayTrouble) {
    let host = options.host
    _ = try ask([
      [
        "EVALSHA", leaveScript, "2", keys.hosts, keys.host(host), host, signed(mark), markDigest,
      ]
    ])
  }
}

/// The way of one command to the server.
struct CommandWay {
  private let command: FleetCommand
  private let lineage: String
  private let now: Int64

  /// The parts of the command that the server is to keep, and the digest of what is in their places.
  private var parts: [(aspect: String, part: FleetCommand, digest: String)]

  init(_ command: FleetCommand, lineage: String, at now: Int64) {
    self.command = command
    self.lineage = lineage
    self.now = now
    parts = command.byAspect.sorted { $0.key < $1.key }.map { ($0.key, $0.value, "") }
  }

  /// The arguments of the script.
  func words(atMost entries: Int) -> [String] {
    [
      String(entries), command.host, lineage, command.name, String(command.stamp),
      CommandText.text(of: command),
    ]
      + parts.flatMap {
        [$0.aspect, KeptCommand.text(of: $0.part, about: $0.aspect, at: now), $0.digest]
      }
  }

  /// Judges what the script has found in the places of the parts: what is not proven is absent, and of two
  /// commands the later one stays.
  ///
  /// - Returns: The result; nil if the script is to be asked again.
  mutating func judge(
    _ answer: RedisReply, at now: Int64, _ context: RelayContext
  ) -> FleetServer.Telling? {
    let found = answer.elements ?? []
    guard !found.isEmpty else { return .told }
    var winner: String?
    var left: [(aspect: String, part: FleetCommand, digest: String)] = []
    for (place, part) in parts.enumerated() where 2 * place + 1 < found.count {
      let kept = kept(found[2 * place + 1], about: part.aspect, at: now, context)
      if let kept, !part.part.isLater(than: kept) {
        let isOwn = kept.host == context.options.host && kept.stamp == command.stamp
        if !isOwn || context.authority.isCurrent(kept) {
          if kept.isLater(than: part.part) { winner = kept.host }
          continue
        }
      }
      left.append((part.aspect, part.part, found[2 * place].text ?? ""))
    }
    parts = left
    if left.isEmpty { return winner.map { .overtaken(by: $0) } ?? .told }
    return nil
  }

  /// The command that the server keeps in a place; nil if that is as good as nothing.
  ///
  /// Without a key, a command that cannot be read may be one of a later version.
  private func kept(
    _ found: RedisReply, about aspect: String, at now: Int64, _ context: RelayContext
  ) -> FleetCommand? {
    guard let text = found.text, !text.isEmpty else { return nil }
    do throws(Refusal) {
      return try KeptCommand.command(
        text, at: .init(name: command.name, aspect: aspect), now: now,
        believing: context.authority)
    } catch {
      return context.authority.isOn ? nil : error.command
    }
  }
}

/// Uses the server; an error of it becomes the relay's trouble.
func served<Result>(
  _ body: () throws(RedisError) -> Result
) throws(RelayTrouble) -> Result {
  do { return try body() } catch { throw .redis(error) }
}
