internal import JSONText
internal import ProgramKit
@_spi(Relay) package import SharedBreaker

/// The state of a fleet on the server, read at one moment, as far as it is proven.
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

  /// The holds that hosts were told, as they are now.
  package private(set) var holds: [(name: String, host: String, FleetHold)] = []
  package private(set) var refusals: [Refusal] = []

  /// Evidence that has been out of date for a while, as fields and values; its hosts may be gone.
  package private(set) var pastEvidence: [RedisReply] = []

  /// The keys and hosts that this relay trusts.
  private let authority: FleetAuthority

  /// The commands that this host knows.
  private let own: [FleetCommand]
  private let known: [CommandPlace: FleetCommand]

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

  /// The commands that read where the stream is, to be sent between MULTI and EXEC.
  ///
  /// Everything else is read afterwards in pieces, because changes meanwhile also arrive by the stream.
  static func questions(_ keys: FleetKeys) -> [[String]] {
    [
      ["TIME"], ["GET", keys.epoch], ["GET", keys.count],
      ["XREVRANGE", keys.stream, "+", "-", "COUNT", "1"],
    ]
  }

  /// Reads the answer to EXEC, for a host that knows some commands.
  package init(
    _ answers: [RedisReply], knowing own: [FleetCommand] = [],
    believing authority: FleetAuthority = FleetAuthority(fleet: "")
  ) throws(RedisError) {
    self.own = own
    known = Self.byPlace(own)
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

  /// Adds some of the commands that the server keeps.
  package mutating func take(commands pairs: [(field: RedisReply, value: RedisReply)]) {
    for (field, value) in pairs {
      do throws(Refusal) {
        guard let (name, aspect) = Self.place(field), let text = value.text else {
          throw KeptCommand.unreadable
        }
        let place = CommandPlace(name: name, aspect: aspect)
        let command = try KeptCommand.command(
          text, at: place, now: now, believing: authority, knowing: known[place])
        guard commands.count < Self.roomForCommands else {
          throw Refusal(
            .room, host: command.host, "the server keeps more commands than a relay reads")
        }
        commands[place] = command
      } catch {
        note(error)
      }
    }
  }

  /// Adds some of the evidence that the server keeps.
  package mutating func take(evidence pairs: [(field: RedisReply, value: RedisReply)]) {
    for (field, value) in pairs {
      do throws(Refusal) { try take(evidence: field, value) } catch { note(error) }
    }
  }

  private mutating func note(_ refusal: Refusal) {
    if refusals.count < FleetView.room { refusals.append(refusal) }
  }

  private static func place(_ field: RedisReply) -> (name: String, rest: String)? {
    place(field.text?.split(separator: "\n", omittingEmptySubsequences: false) ?? [])
  }

  private static func place(_ parts: [Substring]) -> (name: String, rest: String)? {
    guard parts.count == 2 else { return nil }
    let name = String(parts[0])
    guard (try? Breaker.validate(name: name)) != nil else { return nil }
    return (name, String(parts[1]))
  }

  /// Reads lineage, generation, and when the open time or the hold is over.
  ///
  /// Then follow, if it is signed, when that was said, for how long, and the seal. Two more lines are about a hold.
  private mutating func take(evidence field: RedisReply, _ value: RedisReply) throws(Refusal) {
    var place = field.text?.split(separator: "\n", omittingEmptySubsequences: false) ?? []
    let isHold = place.count == 3 && place.removeLast() == "hold"
    let lines = value.text?.split(separator: "\n", maxSplits: 2, omittingEmptySubsequences: false)
    let parts = (lines?.first?.split(separator: " ") ?? []).map(String.init)
    guard parts.count == 3 || parts.count == 6, let (name, host) = Self.place(place),
      FleetName.complaint(about: host) == nil, FleetMessage.isLineage(parts[0]),
      let generation = Int64(parts[1]), generation >= 0, var until = ServerClock.time(parts[2]),
      lines?.count == (isHold ? 3 : 1)
    else { throw Self.unreadable }
    var hold = try isHold ? KeptHold(lines ?? [], at: now) : nil
    var fields: [String: String] = [:]
    if parts.count == 6, let sent = ServerClock.time(parts[3]),
      let length = ServerClock.time(parts[4])
    {
      // An attacker that puts an old value back cannot make it younger.
      until = min(until, sent + length)
      hold?.length = length
      fields =
        FleetMessage(
          hold.map { .hold($0.told) } ?? .open(for: .milliseconds(length)), name: name,
          host: host, lineage: parts[0], generation: generation
        ).fields(sentAt: sent) ?? [:]
      fields["m"] = parts[5]
    }
    guard until > now - 60_000 else {
      if pastEvidence.count < FleetView.room { pastEvidence += [field, value] }
      return
    }
    _ = try authority.isProven(fields: fields)
    guard evidence.count + holds.count < FleetView.room else { throw FleetView.isFull(for: host) }
    if let hold {
      holds.append((name, host, hold.now(until: until, at: now)))
    } else {
      evidence.append(
        (name, host, .init(lineage: parts[0], generation: generation, until: until)))
    }
  }

  private static var unreadable: Refusal {
    Refusal(.unreadable, "the server keeps evidence that this cbrelay cannot read")
  }

  /// A hold as its host told it, in milliseconds.
  private struct KeptHold {
    /// How much longer it lasted then.
    var length: Int64
    let age: Int64
    let after: Int64
    let reason: String

    /// Reads the lines after the first.
    init(_ lines: [Substring], at now: Int64) throws(Refusal) {
      let numbers = lines[1].split(separator: " ").compactMap { ServerClock.time($0) }
      let longest = DurationText.milliseconds(FleetMessage.longestTime)
      guard numbers.count == 3, max(numbers[0], numbers[1]) <= longest,
        numbers[2] <= FleetMessage.latestBelievedStamp(at: now)
      else {
        throw FleetState.unreadable
      }
      (length, age, after) = (numbers[0], numbers[1], numbers[2])
      reason = String(lines[2])
    }

    var told: FleetHold {
      FleetHold(
        left: .milliseconds(length), age: .milliseconds(age), after: after,
        reason: reason.isEmpty ? nil : reason)
    }

    /// The hold as it is at a moment, if it ends at another one.
    func now(until: Int64, at now: Int64) -> FleetHold {
      var hold = told
      hold.left = .milliseconds(until - now)
      hold.age = .milliseconds(max(0, length + age - (until - now)))
      return hold
    }
  }
}

/// Commands that a host and the server have to tell each other.
extension FleetState {
  /// The commands that this host has not heard yet, in the order in which they were given.
  ///
  /// It omits commands that the host would ignore.
  package var unheard: [FleetCommand] {
    commands.filter { place, command in
      !command.isForgotten && known[place].map { command.isLater(than: $0) } ?? true
    }.map(\.value).sorted { $1.isLater(than: $0) }
  }

  /// The commands of which the server has nothing as late that is proven.
  ///
  /// Commands of this host are among them also if it signs them with another key now, and commands of
  /// other hosts only if it can prove which host has given them.
  package func lost(from host: String) -> [FleetCommand] {
    own.filter { command in
      let isLost = command.byAspect.keys.contains { aspect in
        guard let kept = commands[CommandPlace(name: command.name, aspect: aspect)] else {
          return true
        }
        return command.isLater(than: kept) || (kept.host == host && !authority.isCurrent(kept))
      }
      return isLost && (command.host == host || (try? authority.checked(command, at: now)) != nil)
    }.sorted { $1.isLater(than: $0) }
  }
}

/// A part of a command as the server keeps it: stamp, host, when it was given, and the command.
package enum KeptCommand {
  static var unreadable: Refusal {
    Refusal(.unreadable, "the server keeps a command that this cbrelay cannot read")
  }

  /// The text to keep.
  package static func text(
    of part: FleetCommand, about aspect: String, at now: Int64
  ) -> String {
    let given =
      FleetAuthority.given(part, about: aspect)
      ?? max(0, now - DurationText.milliseconds(part.age))
    var part = part
    part.age = .zero
    return "\(part.stamp) \(part.host) \(given) \(CommandText.text(of: part))"
  }

  /// Reads a text.
  ///
  /// - Throws: `Refusal` if it is not a command that this host may carry out, so that it is as good as
  ///   absent.
  static func command(
    _ text: String, at place: FleetState.CommandPlace, now: Int64,
    believing authority: FleetAuthority, knowing known: FleetCommand? = nil
  ) throws(Refusal) -> FleetCommand {
    let parts = text.split(separator: " ", maxSplits: 3)
    guard parts.count == 4, text.utf8.count <= FleetMessage.longest,
      let stamp = Int64(parts[0]), (1...FleetMessage.latestBelievedStamp(at: now)).contains(stamp),
      let given = ServerClock.time(parts[2]),
      FleetName.complaint(about: String(parts[1])) == nil
    else { throw unreadable }
    let host = String(parts[1])
    do throws(Refusal) {
      var command = try CommandText.command(
        String(parts[3]), name: place.name, host: host, stamp: stamp)
      guard command.byAspect[place.aspect] == command else { throw unreadable }
      command.age = .milliseconds(max(0, now - given))
      // Checking takes a while, and this host has done so already.
      if let known, known.isSame(as: command) {
        command.age = known.age
        command.isProven = known.isProven
        return command
      }
      return try authority.checked(command, at: now)
    } catch {
      var refusal = Refusal(error.kind, host: host, error.description)
      refusal.command = FleetCommand(
        name: place.name, action: .reset, author: "", host: host, stamp: stamp, age: .zero)
      throw refusal
    }
  }
}

extension FleetCommand {
  /// Whether another one says the same with the same proofs.
  fileprivate func isSame(as other: FleetCommand) -> Bool {
    var other = other
    (other.age, other.isProven) = (age, isProven)
    return self == other
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
