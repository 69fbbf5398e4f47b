@_spi(Relay) package import SharedBreaker

/// A message from one host to the others.
package struct FleetMessage: Sendable, Hashable {
  package enum Content: Sendable, Hashable {
    /// The breaker is open here, for this much longer.
    case open(for: Duration)

    /// A probe has succeeded here.
    case recovered

    /// The breaker is no longer open here, which tells nothing about its resource.
    case closed

    /// This host was told to leave the resource alone; that says nothing of the state.
    case hold(FleetHold)

    /// An operator's command to every host.
    case command(FleetCommand)
  }

  package var content: Content
  package var name: String

  /// The host that sends the message; for a command, the host that it was given on.
  package var host: String

  /// Distinguishes the host's store from another one under the same name.
  package var lineage: String

  /// The generation of the breaker; 0 for a command.
  package var generation: Int64

  /// When its host sent it, in milliseconds of the server's clock; nil if it does not say.
  package var sentAt: Int64?

  package init(
    _ content: Content, name: String, host: String, lineage: String, generation: Int64,
    sentAt: Int64? = nil
  ) {
    self.sentAt = sentAt
    self.content = content
    self.name = name
    self.host = host
    self.lineage = lineage
    self.generation = generation
  }

  /// The version of the messages, which every relay understands.
  package static let version = "1"

  /// The version of the protocol that this relay speaks.
  package static let protocolVersion: Int64 = 1

  /// How many bytes the fields of a message may have in total.
  package static let longest = 65_536

  /// The longest time that a breaker can be open, as for an operator's trip.
  package static let longestTime = Duration.seconds(365 * 86_400)
}

/// Why a relay does not use a message.
package struct Refusal: Error, Sendable, Hashable {
  /// The kinds of refusals; each is reported once for each host that causes it.
  package enum Kind: Sendable, Hashable {
    case oversized, otherVersion, unreadable, name, value, command, room
    case unsigned, forged, authority

    /// Whether its sender is not proven, or may not command, so that it may come from an attacker.
    package var isUnproven: Bool { [.unsigned, .forged, .authority].contains(self) }
  }

  package var kind: Kind

  /// The host that the message claims to be from; nil if it names none that could be one.
  package var host: String?
  package var description: String

  /// The command that is refused, if it is one, as far as its place and its stamp are known.
  package var command: FleetCommand?

  package init(_ kind: Kind, host: String? = nil, _ description: String) {
    self.kind = kind
    self.host = host
    self.description = description
  }
}

/// Writing messages.
extension FleetMessage {
  /// The fields of a message about a breaker, without those that the server adds; nil for a command.
  func fields(sentAt now: Int64) -> [String: String]? {
    var fields = ["v": Self.version, "h": host, "l": lineage, "b": name, "g": String(generation)]
    fields["t"] = String(now)
    switch content {
    case .open(let time):
      fields["k"] = "open"
      fields["r"] = String(max(0, DurationText.milliseconds(time)))
    case .recovered: fields["k"] = "recovered"
    case .closed: fields["k"] = "closed"
    case .hold(let hold):
      fields["k"] = "hold"
      fields["r"] = String(max(0, DurationText.milliseconds(hold.left)))
      fields["a"] = String(max(0, DurationText.milliseconds(hold.age)))
      fields["e"] = String(hold.after)
      fields["w"] = hold.reason ?? ""
    case .command: return nil
    }
    return fields
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
  ///   - authority: The keys and hosts that this relay trusts.
  /// - Throws: `Refusal` if this version cannot use the message, or if the message lacks the proof
  ///   that it needs.
  package init(
    _ fields: RedisReply, receivedAt time: Int64, at now: Int64,
    believing authority: FleetAuthority = FleetAuthority(fleet: "")
  ) throws(Refusal) {
    let values = try Self.values(of: fields)
    let sender = values["h"].flatMap { FleetName.complaint(about: $0) == nil ? $0 : nil }
    do throws(Refusal) {
      // A command has proofs of its own.
      let isPlain = values["v"] == Self.version && values["k"] != "command"
      let isProven = isPlain ? try authority.isProven(fields: values) : false
      // An attacker that sends a signed message again can make it neither younger nor older.
      let sent = isProven ? values["t"].flatMap { ServerClock.time($0) } : nil
      try self.init(values, delay: .milliseconds(max(0, now - (sent ?? time))), at: now)
      sentAt = sent
      if case .command(let command) = content {
        content = .command(try authority.checked(command, at: now))
      }
    } catch {
      var refusal = Refusal(error.kind, host: sender, error.description)
      if values["k"] == "command", let sender, let name = values["b"],
        let stamp = values["s"].flatMap({ Int64($0) })
      {
        refusal.command = FleetCommand(
          name: name, action: .reset, author: "", host: sender, stamp: stamp, age: .zero)
      }
      throw refusal
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
    let limit = DurationText.milliseconds(Self.longestTime)
    switch try text("k") {
    case "open":
      generation = try number("g", upTo: .max)
      let remaining = Duration.milliseconds(try number("r", upTo: limit))
      content = .open(for: remaining - delay)
    case "recovered":
      generation = try number("g", upTo: .max)
      content = .recovered
    case "closed":
      generation = try number("g", upTo: .max)
      content = .closed
    case "hold":
      generation = try number("g", upTo: .max)
      let left = Duration.milliseconds(try number("r", upTo: limit))
      let age = Duration.milliseconds(try number("a", upTo: limit))
      let reason = try text("w")
      content = .hold(
        FleetHold(
          left: left - delay, age: age + delay,
          after: try number("e", upTo: Self.latestBelievedStamp(at: now)),
          reason: reason.isEmpty ? nil : reason))
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

  /// The highest stamp that a host can have given by now, allowing a day for clocks that differ.
  ///
  /// A stamp is about the time on the clock of its host, in milliseconds. One from far in the future
  /// would overtake all later commands.
  private static func latestStamp(at now: Int64) -> Int64 {
    min(FleetCommand.highestStamp, now + 86_400_000)
  }

  /// The highest stamp that a host believes, whose own clock may differ from the server's.
  ///
  /// Either clock may be wrong. The server refuses stamps that are ahead of its own clock, so it keeps
  /// such a stamp only if its clock was set back, or if a program has broken the protocol.
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

/// The names of fleets and hosts, which become parts of keys on the server.
package enum FleetName {
  package static let longest = 64

  /// Explains why a text cannot be a name; nil if it can.
  package static func complaint(about name: String) -> String? {
    if name.isEmpty { return "it is empty" }
    if name.utf8.count > longest {
      return "it has \(name.utf8.count) bytes, and \(longest) is the limit"
    }
    let isAllowed = name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "-"):
        true
      default: false
      }
    }
    return isAllowed ? nil : "only letters, digits and the characters . _ - are allowed"
  }

  static func check(_ name: String, of what: String, remedy: String) throws(UsageError) {
    guard let complaint = complaint(about: name) else { return }
    throw UsageError(
      "not a name of \(what): '\(OutsideText.quoted(name))': \(complaint)", remedy)
  }
}
