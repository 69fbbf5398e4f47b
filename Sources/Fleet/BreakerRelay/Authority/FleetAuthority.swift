internal import JSONText
@_spi(Relay) package import SharedBreaker

/// The trust of a relay: which texts have to be signed, with which keys, and which hosts it obeys.
package struct FleetAuthority: Sendable, Hashable {
  private let fleet: String

  /// The keys of the fleet, of which the first one signs; none if nothing is signed.
  private let keys: [FleetKey]

  /// Whether unsigned texts are still accepted, during the introduction of a fleet's first key.
  package let acceptsUnsigned: Bool

  /// The hosts whose commands this host obeys; nil for those of every host.
  package let obeyed: Set<String>?

  /// The keys that have to sign a command for this host to obey it; none if no command needs one.
  private let obeyedKeys: [CommandKeyName]

  /// The key with which this host signs its commands; nil if it has none.
  private let commandKey: CommandKey?

  package init(
    fleet: String, keys: [FleetKey] = [], acceptsUnsigned: Bool = false,
    obeyed: Set<String>? = nil, obeyedKeys: [CommandKeyName] = [], commandKey: CommandKey? = nil
  ) {
    self.obeyedKeys = obeyedKeys
    self.commandKey = commandKey
    self.fleet = fleet
    self.keys = keys
    self.acceptsUnsigned = acceptsUnsigned
    self.obeyed = obeyed
  }

  /// Whether this host signs its messages, and checks those of other hosts.
  package var isOn: Bool { !keys.isEmpty }

  /// The names of the keys, the one that signs first.
  package var keyNames: [String] { keys.map(\.id) }

  /// The hosts and keys that this host obeys, in words; nil for those of every host.
  package var obeyedWords: [String]? {
    guard obeyed != nil || !obeyedKeys.isEmpty else { return nil }
    return (obeyed ?? []).sorted() + obeyedKeys.map { "key \($0.short)" }
  }

  /// Why a command of a host, which is this one, could not go out; nil if it could.
  package func complaint(aboutCommandsOf host: String) -> String? {
    if let obeyed, !obeyed.contains(host) {
      let hosts = obeyed.sorted().prefix(4).joined(separator: ", ")
      let more = obeyed.count > 4 ? " and others" : ""
      return "host \(host) may not command the fleet: give it on \(hosts)\(more)"
    }
    guard obeyedKeys.isEmpty || commandKey.map({ obeyedKeys.contains($0.name) }) ?? false else {
      return "host \(host) has no key that the fleet obeys (--command-key-file): give it on a host"
        + " that has one"
    }
    return nil
  }
}

/// Signing and checking: what is not proven is absent.
extension FleetAuthority {
  /// The longest seal that is looked at.
  private static let longestSeal = 200

  private func text(_ kind: SignedText.Kind, _ values: [String]) -> SignedText {
    SignedText(kind, of: fleet, values)
  }

  /// Signs values; nil without a key.
  package func seal(_ kind: SignedText.Kind, _ values: [String]) -> String? {
    guard let key = keys.first else { return nil }
    return key.code(of: text(kind, values)).map { "\(key.id):\($0)" }
  }

  /// Checks the seal of values of a host.
  ///
  /// - Returns: Whether a key of the fleet proves them; false if they count without a proof.
  /// - Throws: `Refusal` if they do not count, so that they are as good as absent.
  package func isProven(
    _ seal: String?, _ kind: SignedText.Kind, _ values: [String], by host: String? = nil
  ) throws(Refusal) -> Bool {
    guard isOn else { return false }
    guard let seal else {
      if acceptsUnsigned { return false }
      throw Refusal(.unsigned, host: host, "it is not signed with a key of the fleet")
    }
    let parts = seal.split(separator: ":", omittingEmptySubsequences: false)
    guard seal.utf8.count <= Self.longestSeal, parts.count == 2,
      let key = keys.first(where: { $0.id == parts[0] }),
      key.accepts(parts[1], of: text(kind, values))
    else {
      throw Refusal(
        .forged, host: host,
        "it is signed with another key than this host has, or was changed on the way")
    }
    return true
  }

  /// Signs the fields of a message; nil without a key.
  package func seal(fields: [String: String]) -> String? { seal(.message, Self.values(fields)) }

  /// Checks the fields of a message.
  func isProven(fields: [String: String]) throws(Refusal) -> Bool {
    try isProven(fields["m"], .message, Self.values(fields), by: fields["h"])
  }

  /// All fields but the number, which the server gives, and the seal itself.
  private static func values(_ fields: [String: String]) -> [String] {
    fields.filter { !["n", "m"].contains($0.key) }.sorted { $0.key < $1.key }
      .flatMap { [$0.key, $0.value] }
  }
}

/// Objects of JSON that end with a seal.
extension FleetAuthority {
  private static let mark = #","seal":""#

  /// Adds a seal to an object with at least one member; without a key, it stays as it is.
  package func sealed(_ object: String, _ kind: SignedText.Kind, _ values: [String]) -> String {
    guard let seal = seal(kind, values + [object]) else { return object }
    return object.dropLast() + Self.mark + seal + #""}"#
  }

  /// Checks an object of a host; whatever else it says counts only then.
  package func isProven(
    object: String, _ kind: SignedText.Kind, _ values: [String], by host: String
  ) throws(Refusal) -> Bool {
    // The seal is the last member, and the quotation marks around it are the last ones.
    let parts = object.split(separator: "\"", omittingEmptySubsequences: false)
    guard parts.count > 4, parts.last == "}", parts[parts.count - 4] == "seal" else {
      return try isProven(nil, kind, values, by: host)
    }
    let end = Self.mark.utf8.count + parts[parts.count - 2].utf8.count + 2
    let plain = object.dropLast(end) + "}"
    return try isProven(
      String(parts[parts.count - 2]), kind, values + [String(plain)], by: host)
  }
}

/// Signing and checking commands.
///
/// The seal of a command is its host's, and covers the signature of the command key, so that nothing can
/// be cut. Other hosts pass it on as it is, so that none of them can give a command in the name of another
/// one. There is one for each aspect, because of two commands, each may be the later one about something.
extension FleetAuthority {
  /// A command of this host with its seals, at the server's time; without a key, it stays as it is.
  package func signed(_ command: FleetCommand, at now: Int64) -> FleetCommand {
    guard isOn else { return command }
    var command = command
    let given = max(0, now - DurationText.milliseconds(command.age))
    for (aspect, part) in command.byAspect {
      let values = Self.values(part, aspect, given: given)
      let order = commandKey.flatMap { key in
        key.code(of: text(.command, values)).map { "\(key.name.short):\($0)" }
      }
      guard let seal = seal(.command, values + [order ?? ""]) else { continue }
      command.seals[aspect] = "\(given):\(seal)\(order.map { ":\($0)" } ?? "")"
    }
    return command
  }

  /// The seal of one aspect of a command: when it was given, the signature of a command key with the
  /// name of that key, and the seal with the fleet's key over all of it.
  private struct CommandSeal {
    var given: Int64
    var seal: String
    var order: String

    init?(_ text: String) {
      let words = text.split(separator: ":", omittingEmptySubsequences: false)
      guard words.count == 3 || words.count == 5, let given = ServerClock.time(words[0]) else {
        return nil
      }
      self.given = given
      seal = "\(words[1]):\(words[2])"
      order = words.dropFirst(3).joined(separator: ":")
    }

    /// The short name of the key that has signed it.
    var orderKey: Substring { order.prefix { $0 != ":" } }
  }

  /// A command that this host may carry out, with the age that it really has.
  ///
  /// If it is signed, only the signed age counts: any writer to the server may have changed the other
  /// one, to make the command seem too old.
  package func checked(_ command: FleetCommand, at now: Int64) throws(Refusal) -> FleetCommand {
    var checked = command
    checked.isProven = false
    guard isOn else {
      try checkAuthority(of: command)
      return checked
    }
    var ages: [Duration] = []
    var isOrdered = true
    let parts = command.byAspect
    // A command about nothing has no part that could be signed.
    if parts.isEmpty { _ = try isProven(nil, .command, [], by: command.host) }
    for (aspect, part) in parts {
      let seal = part.seals[aspect].flatMap { CommandSeal($0) }
      guard let seal else {
        let isMissing = part.seals[aspect] == nil
        _ = try isProven(isMissing ? nil : "", .command, [], by: command.host)
        isOrdered = false
        continue
      }
      let values = Self.values(part, aspect, given: seal.given)
      _ = try isProven(seal.seal, .command, values + [seal.order], by: command.host)
      ages.append(.milliseconds(max(0, now - seal.given)))
      let signature = seal.order.dropFirst(seal.orderKey.utf8.count + 1)
      isOrdered =
        isOrdered
        && obeyedKeys.contains {
          $0.short == seal.orderKey && $0.accepts(signature, of: text(.command, values))
        }
    }
    checked.isProven = !parts.isEmpty && ages.count == parts.count
    if checked.isProven, let age = ages.max() { checked.age = age }
    try checkAuthority(of: command)
    guard isOrdered || obeyedKeys.isEmpty else {
      throw Refusal(
        .authority, host: command.host,
        "no key that this host obeys has signed it (--obey): give it on a host with such a key")
    }
    return checked
  }

  private func checkAuthority(of command: FleetCommand) throws(Refusal) {
    guard let obeyed, !obeyed.contains(command.host) else { return }
    throw Refusal(
      .authority, host: command.host, "host \(command.host) may not command this one (--obey)")
  }

  /// Whether the keys that sign now have signed a command of this host.
  ///
  /// A host that has no command key any more leaves what it has signed with one as it is.
  func isCurrent(_ command: FleetCommand) -> Bool {
    guard let key = keys.first else { return true }
    return command.byAspect.keys.allSatisfy { aspect in
      guard let seal = command.seals[aspect].flatMap({ CommandSeal($0) }) else { return false }
      let isOrdered = commandKey.map { $0.name.short == seal.orderKey } ?? true
      return isOrdered && seal.seal.hasPrefix(key.id + ":")
    }
  }

  /// When a command was given, by the seal of an aspect; nil if that is not signed.
  static func given(_ command: FleetCommand, about aspect: String) -> Int64? {
    command.seals[aspect].flatMap { CommandSeal($0)?.given }
  }

  private static func values(_ part: FleetCommand, _ aspect: String, given: Int64) -> [String] {
    [
      part.name, aspect, part.host, String(part.stamp), String(given),
      CommandText.signedText(of: part),
    ]
  }
}
