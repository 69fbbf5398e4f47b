internal import JSONText
@_spi(Relay) internal import ProgramKit
@_spi(Relay) package import SharedBreaker

/// The state of a fleet on the server, read at one moment.
package struct FleetState: Sendable {
  package var now: Int64
  package var epoch: String

  /// The number of the latest message, and the name of its entry in the stream.
  package var number: Int64
  package var entry: String

  /// How many commands are read, so that a server full of nonsense cannot fill the memory.
  private static let roomForCommands = 1_000_000

  /// The latest command about each aspect, as a command about that aspect alone.
  package private(set) var commands: [CommandPlace: FleetCommand] = [:]
  package private(set) var evidence: [(name: String, host: String, FleetView.Evidence)] = []
  package private(set) var refusals: [Refusal] = []

  /// The digests of values on the server that stand in the places of commands without proof.
  package private(set) var replaceable: [CommandPlace: String] = [:]

  /// The keys and hosts that this relay trusts.
  private let authority: FleetAuthority

  /// This host, which signs its commands again if the fleet has another key.
  private let host: String

  /// The breaker and the aspect that a command is the latest about.
  package struct CommandPlace: Sendable, Hashable {
    package var name: String
    package var aspect: String

    package init(name: String, aspect: String) {
      self.name = name
      self.aspect = aspect
    }

    /// The field of the hash.
    var field: String { "\(name)\n\(aspect)" }
  }

  /// Evidence that has been out of date for a while, as fields and values; its hosts may be gone.
  package private(set) var pastEvidence: [RedisReply] = []

  /// Sealed evidence that has been out of date for a while.
  package private(set) var pastSealed: [RedisReply] = []

  /// The commands that read where the stream is, to be sent between MULTI and EXEC.
  ///
  /// Everything else is read afterwards in pieces, because changes meanwhile also arrive by the stream.
  static func questions(_ keys: FleetKeys) -> [[String]] {
    [
      ["TIME"], ["GET", keys.epoch], ["GET", keys.count],
      ["XREVRANGE", keys.stream, "+", "-", "COUNT", "1"],
    ]
  }

  /// Reads the answer to EXEC.
  package init(
    _ answers: [RedisReply], for host: String = "",
    believing authority: FleetAuthority = FleetAuthority(fleet: "")
  ) throws(RedisError) {
    self.host = host
    self.authority = authority
    for answer in answers {
      if case .error(let text) = answer { throw RedisError(answer: text) }
    }
    guard answers.count == 4, let now = ServerClock.milliseconds(answers[0]),
      let entries = answers[3].elements
    else { throw .unexpected("a question about the fleet") }
    self.now = now
    // The server may have lost everything since the session began.
    epoch = answers[1].text ?? ""
    number = answers[2].number(upTo: FleetCommand.highestStamp - 1) ?? 0
    entry = entries.first?.elements?.first?.text ?? "0-0"
  }

  /// Adds some of the commands that the server keeps.
  package mutating func take(commands pairs: [(field: RedisReply, value: RedisReply)]) {
    for (field, value) in pairs {
      do throws(Refusal) {
        try take(command: field, value)
      } catch {
        note(error)
        // A command that this version does not understand may be one of a later version.
        guard authority.isOn, error.kind.isUnproven || error.kind == .unreadable,
          let (name, aspect) = Self.place(field)
        else { continue }
        replaceable[CommandPlace(name: name, aspect: aspect)] = ServerDigest(value)?.text
      }
    }
  }

  /// Adds some of the evidence that the server keeps.
  package mutating func take(evidence pairs: [(field: RedisReply, value: RedisReply)]) {
    for (field, value) in pairs {
      do throws(Refusal) { try take(evidence: field, value) } catch { note(error) }
    }
  }

  /// Adds some of the evidence that the server keeps with seals.
  package mutating func take(sealed pairs: [(field: RedisReply, value: RedisReply)]) {
    for (field, value) in pairs {
      do throws(Refusal) { try take(sealed: field, value) } catch { note(error) }
    }
  }

  private mutating func note(_ refusal: Refusal) {
    if refusals.count < FleetView.room { refusals.append(refusal) }
  }

  private static func unreadable(_ what: String) -> Refusal {
    Refusal(.unreadable, "the server keeps \(what) that this cbrelay cannot read")
  }

  private static func place(_ field: RedisReply) -> (name: String, rest: String)? {
    let parts = field.text?.split(separator: "\n", omittingEmptySubsequences: false) ?? []
    guard parts.count == 2 else { return nil }
    let name = String(parts[0])
    guard (try? Breaker.validate(name: name)) != nil else { return nil }
    return (name, String(parts[1]))
  }

  private mutating func take(command field: RedisReply, _ value: RedisReply) throws(Refusal) {
    let parts = value.text?.split(separator: " ", maxSplits: 3) ?? []
    guard let (name, aspect) = Self.place(field), parts.count == 4,
      value.text.map({ $0.utf8.count <= FleetMessage.longest }) ?? false,
      let stamp = Int64(parts[0]), (1...FleetMessage.latestBelievedStamp(at: now)).contains(stamp),
      let given = ServerClock.time(parts[2])
    else { throw Self.unreadable("a command") }
    let host = String(parts[1])
    if FleetName.complaint(about: host) != nil { throw Self.unreadable("a command") }
    do throws(Refusal) {
      var command = try CommandText.command(String(parts[3]), name: name, host: host, stamp: stamp)
      command.age = .milliseconds(max(0, now - given))
      guard command.byAspect[aspect] == command else { throw Self.unreadable("a command") }
      let place = CommandPlace(name: name, aspect: aspect)
      command = try authority.checked(command, at: now)
      if host == self.host, !authority.isCurrent(command) {
        replaceable[place] = ServerDigest(value)?.text
      }
      guard commands.count < Self.roomForCommands else {
        throw Refusal(.room, host: host, "the server keeps more commands than a relay reads")
      }
      commands[place] = command
    } catch {
      var refusal = Refusal(error.kind, host: host, error.description)
      refusal.command = RefusedCommand(name: name, stamp: stamp, host: host, error.description)
      throw refusal
    }
  }

  private mutating func take(evidence field: RedisReply, _ value: RedisReply) throws(Refusal) {
    let parts = value.text?.split(separator: " ") ?? []
    guard parts.count == 3, let found = Self.evidence(field, parts[...]) else {
      throw Self.unreadable("evidence")
    }
    guard found.piece.until > now - 60_000 else {
      if pastEvidence.count < FleetView.room { pastEvidence += [field, value] }
      return
    }
    // With a key, only evidence in the other hash counts; relays with a key write to both.
    guard authority.accepts(authority.isOn ? .unsigned : .unchecked) else { return }
    try add(found)
  }

  private mutating func take(sealed field: RedisReply, _ value: RedisReply) throws(Refusal) {
    let parts = value.text?.split(separator: " ") ?? []
    guard parts.count == 6, var found = Self.evidence(field, parts.prefix(3)),
      let sent = ServerClock.time(parts[3]), let length = ServerClock.time(parts[4])
    else { throw Self.unreadable("evidence") }
    // An attacker that puts an old value back cannot make it younger.
    found.piece.until = min(found.piece.until, sent + length)
    guard found.piece.until > now - 60_000 else {
      if pastSealed.count < FleetView.room { pastSealed += [field, value] }
      return
    }
    let message = FleetMessage(
      .open(for: .milliseconds(length)), name: found.name, host: found.host,
      lineage: found.piece.lineage, generation: found.piece.generation)
    var fields = message.fields(sentAt: sent) ?? [:]
    fields["m"] = String(parts[5])
    try authority.demand(authority.proof(fields: fields), from: found.host)
    try add(found)
  }

  private mutating func add(
    _ found: (name: String, host: String, piece: FleetView.Evidence)
  ) throws(Refusal) {
    guard evidence.count < FleetView.room else { throw FleetView.isFull(for: found.host) }
    evidence.append((found.name, found.host, found.piece))
  }

  /// Reads lineage, generation, and when the open time is over.
  private static func evidence(
    _ field: RedisReply, _ parts: ArraySlice<Substring>
  ) -> (name: String, host: String, piece: FleetView.Evidence)? {
    guard let (name, host) = place(field), FleetName.complaint(about: host) == nil,
      FleetMessage.isLineage(String(parts[0])),
      let generation = Int64(parts[1]), generation >= 0, let until = ServerClock.time(parts[2])
    else { return nil }
    let piece = FleetView.Evidence(
      lineage: String(parts[0]), generation: generation, until: until)
    return (name, host, piece)
  }
}

/// Commands that a host and the server have to tell each other after a disconnection.
extension FleetState {
  /// The commands that this host has not heard yet, in the order in which they were given.
  ///
  /// It omits commands that the host would ignore.
  package func unheard(knowing own: [FleetCommand]) -> [FleetCommand] {
    let known = Self.byPlace(own)
    return commands.filter { place, command in
      !command.isForgotten && known[place].map { command.isLater(than: $0) } ?? true
    }.map(\.value).sorted { $1.isLater(than: $0) }
  }

  /// The commands of this host that the server does not have.
  ///
  /// Commands of other hosts are among them only if this host can prove which host has given them.
  package func lost(knowing own: [FleetCommand]) -> [FleetCommand] {
    own.filter { command in
      guard command.host == host || authority.accepts(authority.proof(of: command, at: now).proof)
      else { return false }
      return command.byAspect.keys.contains { aspect in
        let place = CommandPlace(name: command.name, aspect: aspect)
        if command.host == host, replaceable[place] != nil { return true }
        return commands[place].map { command.isLater(than: $0) } ?? true
      }
    }.sorted { $1.isLater(than: $0) }
  }

  private static func byPlace(_ own: [FleetCommand]) -> [CommandPlace: FleetCommand] {
    var known: [CommandPlace: FleetCommand] = [:]
    for command in own {
      for (aspect, part) in command.byAspect {
        let place = CommandPlace(name: command.name, aspect: aspect)
        if known[place].map({ part.isLater(than: $0) }) ?? true { known[place] = part }
      }
    }
    return known
  }
}

/// The server's copy of a command, as far as it tells commands apart.
struct KeptCommand: Sendable, Hashable {
  var stamp: Int64
  var host: String

  /// The number of its message; nil if an earlier relay has told it.
  var number: Int64?

  /// Reads the server's copy; nil if there is none, or it makes no sense.
  init?(_ text: String?) {
    let parts = text?.split(separator: " ", maxSplits: 3) ?? []
    guard parts.count == 4, let stamp = Int64(parts[0]),
      FleetName.complaint(about: String(parts[1])) == nil
    else { return nil }
    self.stamp = stamp
    host = String(parts[1])
    let fields = try? JSONFields(String(parts[3]), standingFor: "a command")
    number = fields?.number("n").flatMap { $0 > 0 ? $0 : nil }
  }

  /// Whether the server's text in a place is a command that its host has given.
  static func isProven(
    _ text: String, at place: FleetState.CommandPlace, now: Int64, to authority: FleetAuthority
  ) -> Bool {
    guard authority.isOn else { return true }
    let parts = text.split(separator: " ", maxSplits: 3)
    guard parts.count == 4, let stamp = Int64(parts[0]) else { return false }
    let command = try? CommandText.command(
      String(parts[3]), name: place.name, host: String(parts[1]), stamp: stamp)
    guard let command, command.byAspect[place.aspect] == command else { return false }
    return (try? authority.checked(command, at: now)) != nil
  }

  /// Whether it is later than a command that a host knows.
  func isLater(than command: FleetCommand) -> Bool {
    var other = command
    (other.stamp, other.host) = (stamp, host)
    return other.isLater(than: command)
  }
}

/// The description of a host's breaker on the server, as JSON text.
///
/// Times are milliseconds of the server's clock.
package struct FleetBreaker: Sendable, Hashable {
  package var name: String
  package var state: BreakerState
  package var mode: BreakerMode
  package var generation: Int64
  package var trips: Int64
  package var openUntil: Int64?
  package var modeUntil: Int64?

  /// Describes a breaker; nil if the fleet need not know about it.
  package init?(_ snapshot: BreakerSnapshot, at now: Int64) {
    guard
      snapshot.policy.concernsFleet || snapshot.state != .closed || snapshot.mode != .automatic
    else { return nil }
    name = snapshot.name
    state = snapshot.state
    mode = snapshot.mode
    generation = snapshot.generation
    trips = snapshot.trips
    openUntil = snapshot.openEndsIn.map { now + DurationText.milliseconds($0) }
    modeUntil = snapshot.modeEndsIn.map { now + DurationText.milliseconds($0) }
  }

  /// The text, without the name.
  package var text: String {
    JSONValue.object([
      .init("state", .string(state.wireName)), .init("mode", .string(mode.wireName)),
      .init("generation", .integer(generation)), .init("trips", .integer(trips)),
      .init("open_until_ms", JSONValue(openUntil)), .init("mode_until_ms", JSONValue(modeUntil)),
    ]).text
  }

  /// Reads a text; nil if it does not describe a breaker.
  package init?(_ text: String, named name: String) {
    guard text.utf8.count <= 2_048, (try? Breaker.validate(name: name)) != nil,
      let fields = try? JSONFields(text, standingFor: "a breaker"),
      let state = fields.text("state").flatMap({ BreakerState(wireName: $0) }),
      let mode = fields.text("mode").flatMap({ BreakerMode(wireName: $0) })
    else { return nil }
    func number(_ key: String) -> Int64? {
      fields.number(key).flatMap { (0...ServerClock.latest).contains($0) ? $0 : nil }
    }
    self.name = name
    self.state = state
    self.mode = mode
    generation = number("generation") ?? 0
    trips = number("trips") ?? 0
    openUntil = number("open_until_ms")
    modeUntil = number("mode_until_ms")
  }

  /// The breaker in the relay's status.
  func standing(at now: Int64) -> RelayStatus.Standing {
    let isModeOver = modeUntil.map { $0 <= now } ?? false
    let ends = state == .open ? openUntil.map { max(0, $0 - now) } : nil
    return RelayStatus.Standing(
      name: name, state: state.wireName, mode: (isModeOver ? .automatic : mode).wireName,
      openEndsIn: ends.map { .milliseconds($0) }, trips: trips)
  }
}

/// The server's clock, as this host knows it from the server's latest answer.
///
/// Hosts compare only times of this clock, because their own clocks may differ.
package struct ServerClock: Sendable {
  private var milliseconds: Int64
  private var readAt: ContinuousClock.Instant

  /// Begins with the time that the server has just told.
  package init(milliseconds: Int64, at instant: ContinuousClock.Instant = .now) {
    self.milliseconds = milliseconds
    readAt = instant
  }

  /// The latest possible time, in milliseconds: the year 33658.
  package static let latest: Int64 = 1_000_000_000_000_000

  /// Reads the answer to TIME; nil if it makes no sense.
  package static func milliseconds(_ answer: RedisReply) -> Int64? {
    guard let parts = answer.elements, parts.count == 2,
      let seconds = parts[0].number(upTo: latest / 1_000),
      let microseconds = parts[1].number(upTo: 999_999)
    else { return nil }
    return seconds * 1_000 + microseconds / 1_000
  }

  /// Reads a time; nil if it makes no sense.
  package static func time(_ text: some StringProtocol) -> Int64? {
    Int64(text).flatMap { (0...latest).contains($0) ? $0 : nil }
  }

  /// Notes that the server has received something at a time, so its clock is at least there.
  package mutating func hasReached(_ time: Int64, at instant: ContinuousClock.Instant = .now) {
    guard time > now(instant), time <= Self.latest else { return }
    self = ServerClock(milliseconds: time, at: instant)
  }

  /// The server's time in milliseconds.
  package func now(_ instant: ContinuousClock.Instant = .now) -> Int64 {
    let (seconds, rest) = (instant - readAt).components
    return milliseconds + seconds * 1_000 + rest / 1_000_000_000_000_000
  }
}
