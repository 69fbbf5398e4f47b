package import SharedBreaker

/// What one host tells the others.
package struct FleetMessage: Sendable, Hashable {
  package enum Content: Sendable, Hashable {
    /// The breaker is open here, for this much longer.
    case open(for: Duration)

    /// A probe has succeeded here.
    case recovered

    /// The breaker is no longer open here, which says nothing about its resource.
    case closed

    /// An operator's command to every host.
    case command(FleetCommand)
  }

  package var content: Content
  package var name: String

  /// The host that tells it; of a command, the host that it was given on.
  package var host: String

  /// Tells the host's store from another one under the same name.
  package var lineage: String

  /// The generation of the breaker; 0 for a command.
  package var generation: Int64

  package init(
    _ content: Content, name: String, host: String, lineage: String, generation: Int64
  ) {
    self.content = content
    self.name = name
    self.host = host
    self.lineage = lineage
    self.generation = generation
  }

  /// The version of the protocol.
  package static let version = "1"

  /// The most bytes that the fields of a message may have together.
  package static let longest = 65_536

  /// The longest time that a breaker can be open, as for an operator's trip.
  package static let longestTime = Duration.seconds(365 * 86_400)
}

/// Why a relay does not use a message.
package struct Refusal: Error, Sendable, Hashable {
  /// The kinds of refusals; each is reported once for each host that causes it.
  package enum Kind: Sendable, Hashable {
    case oversized, otherVersion, unreadable, name, value, command, room
  }

  package var kind: Kind

  /// The host that the message says it is from; nil if it says none that could be one.
  package var host: String?
  package var description: String

  package init(_ kind: Kind, host: String? = nil, _ description: String) {
    self.kind = kind
    self.host = host
    self.description = description
  }
}

/// Reading messages.
extension FleetMessage {
  /// Reads the fields of an entry of the stream.
  ///
  /// - Parameters:
  ///   - fields: The fields and values of the entry.
  ///   - time: When the server received the entry.
  ///   - now: The server's time.
  /// - Throws: `Refusal` if this version cannot use the message.
  package init(
    _ fields: RedisReply, receivedAt time: Int64, at now: Int64
  ) throws(Refusal) {
    let values = try Self.values(of: fields)
    let sender = values["h"].flatMap { FleetName.complaint(about: $0) == nil ? $0 : nil }
    do throws(Refusal) {
      try self.init(values, delay: .milliseconds(max(0, now - time)), at: now)
    } catch {
      throw Refusal(error.kind, host: sender, error.description)
    }
  }

  private static func values(of fields: RedisReply) throws(Refusal) -> [String: String] {
    guard let pairs = fields.pairs else { throw Refusal(.unreadable, "it has no fields") }
    var size = 0
    for element in fields.elements ?? [] {
      if case .bytes(let bytes) = element { size += bytes.count }
    }
    guard size <= longest else {
      throw Refusal(.oversized, "it has \(size) bytes, and \(longest) is the limit")
    }
    var values: [String: String] = [:]
    for (field, value) in pairs {
      guard let field = field.text, let value = value.text else {
        throw Refusal(.unreadable, "it is not UTF-8")
      }
      values[field] = value
    }
    return values
  }

  private init(
    _ values: [String: String], delay: Duration, at now: Int64
  ) throws(Refusal) {
    guard values["v"] == Self.version else {
      let version = values["v"].map { "version \(OutsideText.quoted($0))" } ?? "no version"
      throw Refusal(
        .otherVersion, "it has \(version) of the protocol, and this cbrelay knows \(Self.version)")
    }
    func text(_ field: String) throws(Refusal) -> String {
      guard let value = values[field] else {
        throw Refusal(.unreadable, "it has no field \(field)")
      }
      return value
    }
    host = try text("h")
    if let complaint = FleetName.complaint(about: host) {
      throw Refusal(.name, "its host cannot be '\(OutsideText.quoted(host))': \(complaint)")
    }
    name = try text("b")
    do throws(BreakerError) {
      try Breaker.validate(name: name)
    } catch {
      throw Refusal(.name, error.description)
    }
    lineage = try text("l")
    guard Self.isLineage(lineage) else {
      throw Refusal(.value, "its lineage is not 1 to 64 hexadecimal digits")
    }
    func number(_ field: String, upTo limit: Int64) throws(Refusal) -> Int64 {
      let value = try text(field)
      guard let number = Int64(value), (0...limit).contains(number) else {
        throw Refusal(.value, "its field \(field) cannot be '\(OutsideText.quoted(value))'")
      }
      return number
    }
    generation = 0
    switch try text("k") {
    case "open":
      generation = try number("g", upTo: .max)
      let limit = DurationText.milliseconds(Self.longestTime)
      let remaining = Duration.milliseconds(try number("r", upTo: limit))
      content = .open(for: remaining - delay)
    case "recovered":
      generation = try number("g", upTo: .max)
      content = .recovered
    case "closed":
      generation = try number("g", upTo: .max)
      content = .closed
    case "command":
      let stamp = try number("s", upTo: Self.latestBelievedStamp(at: now))
      var command = try CommandText.command(
        try text("c"), name: name, host: host, stamp: stamp)
      command.age += delay
      content = .command(command)
    case let kind:
      throw Refusal(.value, "this cbrelay knows no message '\(OutsideText.quoted(kind))'")
    }
  }

  /// The highest stamp that a host can have given by now, with a day for clocks that differ.
  ///
  /// A stamp is about the time on the clock of its host, in milliseconds. One from far in the future
  /// would overtake all commands that are ever given.
  package static func latestStamp(at now: Int64) -> Int64 {
    min(FleetCommand.highestStamp, now + 86_400_000)
  }

  /// The highest stamp that is believed by a host whose own clock may differ from the server's.
  ///
  /// Either may be the wrong one. The server refuses what is ahead of its own clock, so that what is
  /// found there was told when its clock said so, or by a program that does not keep to the protocol.
  package static func latestBelievedStamp(at now: Int64) -> Int64 {
    max(latestStamp(at: now), latestStamp(at: ownTime))
  }

  /// The time on this host's clock, in milliseconds since 1970.
  static var ownTime: Int64 { StoreClock.system.wallTime.millisecondsSince1970 }

  static func isLineage(_ text: String) -> Bool {
    (1...64).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte)
      }
  }
}
