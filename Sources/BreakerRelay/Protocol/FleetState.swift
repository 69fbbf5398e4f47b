package import SharedBreaker

/// What the server keeps of a fleet, read at one moment.
package struct FleetState: Sendable {
  package var now: Int64
  package var epoch: String

  /// The number of the latest message, and the name of its entry in the stream.
  package var number: Int64
  package var entry: String

  /// The most commands that are read; a server full of nonsense must not fill the memory.
  private static let roomForCommands = 1_000_000

  /// The latest command about each aspect, as a command about that aspect alone.
  package private(set) var commands: [CommandPlace: FleetCommand] = [:]
  package private(set) var evidence: [(name: String, host: String, FleetView.Evidence)] = []
  package private(set) var refusals: [Refusal] = []

  /// Of what a command is the latest.
  package struct CommandPlace: Sendable, Hashable {
    package var name: String
    package var aspect: String

    package init(name: String, aspect: String) {
      self.name = name
      self.aspect = aspect
    }
  }

  /// Evidence that has been over for a while, as the server has it; its hosts may be gone for good.
  package private(set) var pastEvidence: [RedisReply] = []

  /// The commands that read where the stream is, to be sent between MULTI and EXEC.
  ///
  /// What the server keeps besides is read afterwards, in pieces: whatever changes meanwhile comes by
  /// the stream as well.
  static func questions(_ keys: FleetKeys) -> [[String]] {
    [
      ["TIME"], ["GET", keys.epoch], ["GET", keys.count],
      ["XREVRANGE", keys.stream, "+", "-", "COUNT", "1"],
    ]
  }

  /// Reads the answer to EXEC.
  package init(_ answers: [RedisReply]) throws(RedisError) {
    for answer in answers {
      if case .error(let text) = answer { throw RedisError(answer: text) }
    }
    guard answers.count == 4, let now = ServerClock.milliseconds(answers[0]),
      let entries = answers[3].elements
    else { throw .unexpected("a question about the fleet") }
    self.now = now
    // The server may have lost everything since it was asked for these.
    epoch = answers[1].text ?? ""
    number = answers[2].number(upTo: FleetCommand.highestStamp - 1) ?? 0
    entry = entries.first?.elements?.first?.text ?? "0-0"
  }

  /// Takes in some of the commands that the server keeps.
  package mutating func take(commands pairs: [(field: RedisReply, value: RedisReply)]) {
    for (field, value) in pairs {
      do throws(Refusal) { try take(command: field, value) } catch { note(error) }
    }
  }

  /// Takes in some of the evidence that the server keeps.
  package mutating func take(evidence pairs: [(field: RedisReply, value: RedisReply)]) {
    for (field, value) in pairs {
      do throws(Refusal) { try take(evidence: field, value) } catch { note(error) }
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
      guard commands.count < Self.roomForCommands else {
        throw Refusal(.room, host: host, "the server keeps more commands than a relay reads")
      }
      commands[CommandPlace(name: name, aspect: aspect)] = command
    } catch {
      throw Refusal(error.kind, host: host, error.description)
    }
  }

  private mutating func take(evidence field: RedisReply, _ value: RedisReply) throws(Refusal) {
    let parts = value.text?.split(separator: " ") ?? []
    guard let (name, host) = Self.place(field), FleetName.complaint(about: host) == nil,
      parts.count == 3, FleetMessage.isLineage(String(parts[0])),
      let generation = Int64(parts[1]), generation >= 0, let until = ServerClock.time(parts[2])
    else { throw Self.unreadable("evidence") }
    guard until > now - 60_000 else {
      if pastEvidence.count < FleetView.room { pastEvidence += [field, value] }
      return
    }
    guard evidence.count < FleetView.room else { throw FleetView.isFull(for: host) }
    evidence.append(
      (
        name, host,
        FleetView.Evidence(lineage: String(parts[0]), generation: generation, until: until)
      ))
  }
}

/// What a host and the server have to tell each other after they were apart.
extension FleetState {
  /// The commands that this host has yet to hear, in the order in which they were given.
  ///
  /// Without those that it would ignore, which the server keeps for good.
  package func unheard(knowing own: [FleetCommand]) -> [FleetCommand] {
    let known = Self.byPlace(own)
    return commands.filter { place, command in
      !command.isForgotten && known[place].map { command.isLater(than: $0) } ?? true
    }.map(\.value).sorted { $1.isLater(than: $0) }
  }

  /// The commands that the server has lost, or has never had.
  package func lost(knowing own: [FleetCommand]) -> [FleetCommand] {
    own.filter { command in
      command.byAspect.keys.contains { aspect in
        let kept = commands[CommandPlace(name: command.name, aspect: aspect)]
        return kept.map { command.isLater(than: $0) } ?? true
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
