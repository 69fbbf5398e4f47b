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

  /// The proof that a relay of the fleet has written a text.
  package enum Proof: Sendable, Hashable {
    /// There is no key to check it with.
    case unchecked

    /// A relay with a key of the fleet has said it.
    case proven

    /// It is not signed.
    case unsigned

    /// It is signed with a key that this host does not have, or it was changed since.
    case wrong
  }
}

/// Signing and checking any text.
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

  /// Checks the signature of values.
  package func proof(seal: String?, _ kind: SignedText.Kind, _ values: [String]) -> Proof {
    guard isOn else { return .unchecked }
    guard let seal else { return .unsigned }
    let parts = seal.split(separator: ":", omittingEmptySubsequences: false)
    guard seal.utf8.count <= Self.longestSeal, parts.count == 2,
      let key = keys.first(where: { $0.id == parts[0] })
    else { return .wrong }
    return key.accepts(parts[1], of: text(kind, values)) ? .proven : .wrong
  }

  /// Whether a text with this proof counts.
  func accepts(_ proof: Proof) -> Bool {
    switch proof {
    case .unchecked, .proven: true
    case .unsigned: acceptsUnsigned
    case .wrong: false
    }
  }

  /// Refuses a text that does not count.
  func demand(_ proof: Proof, from host: String? = nil) throws(Refusal) {
    guard !accepts(proof) else { return }
    throw proof == .unsigned
      ? Refusal(.unsigned, host: host, "it is not signed with a key of the fleet")
      : Refusal(
        .forged, host: host,
        "it is signed with another key than this host has, or was changed on the way")
  }
}

/// Texts of JSON that end with a seal.
extension FleetAuthority {
  private static let mark = #","seal":""#

  /// Adds a seal to an object with at least one member; without a key, it stays as it is.
  package func sealed(_ object: String, _ kind: SignedText.Kind, _ values: [String]) -> String {
    guard let seal = seal(kind, values + [object]) else { return object }
    return object.dropLast() + Self.mark + seal + #""}"#
  }

  /// Checks an object; whatever else it says counts only with this proof.
  package func proof(of object: String, _ kind: SignedText.Kind, _ values: [String]) -> Proof {
    guard isOn else { return .unchecked }
    guard let (plain, seal) = Self.parts(object) else { return .unsigned }
    return proof(seal: seal, kind, values + [plain])
  }

  /// The seal of an object; nil if it has none.
  package static func seal(of object: String?) -> String? { object.flatMap { parts($0) }?.seal }

  private static func parts(_ object: String) -> (plain: String, seal: String)? {
    guard object.hasSuffix(#""}"#), let start = object.lastRange(of: mark) else { return nil }
    return (object[..<start.lowerBound] + "}", String(object[start.upperBound...].dropLast(2)))
  }
}

extension String {
  /// Where another text last begins and ends.
  fileprivate func lastRange(of other: String) -> Range<Index>? {
    let all = Array(utf8)
    let part = Array(other.utf8)
    guard all.count >= part.count else { return nil }
    for place in stride(from: all.count - part.count, through: 0, by: -1)
    where all[place..<place + part.count].elementsEqual(part) {
      let start = utf8.index(startIndex, offsetBy: place)
      return start..<utf8.index(start, offsetBy: part.count)
    }
    return nil
  }
}

/// Signing and checking commands.
///
/// The seal of a command is its host's. Other hosts pass it on as it is, so that none of them can give
/// a command in the name of another one. There is one for each aspect, because of two commands, each
/// may be the later one about something.
extension FleetAuthority {
  /// A command of this host with its seals, at the server's time; without a key, it stays as it is.
  package func signed(_ command: FleetCommand, at now: Int64) -> FleetCommand {
    guard isOn else { return command }
    var command = command
    let given = max(0, now - DurationText.milliseconds(command.age))
    for (aspect, part) in command.byAspect {
      let values = Self.values(part, aspect, given: given)
      guard let seal = seal(.command, values) else { continue }
      let word = commandKey.flatMap { key in
        key.code(of: text(.command, values)).map { ":\(key.name.short):\($0)" }
      }
      command.seals[aspect] = "\(given):\(seal)\(word ?? "")"
    }
    return command
  }

  /// The seal of one aspect of a command: when it was given, the seal with the fleet's key, and which
  /// command key has signed it with which code.
  private struct CommandSeal {
    var given: Int64
    var seal: String
    var signature: (key: String, code: String)?

    init?(_ text: String) {
      let words = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
      guard words.count == 3 || words.count == 5, let given = ServerClock.time(words[0]) else {
        return nil
      }
      self.given = given
      seal = "\(words[1]):\(words[2])"
      if words.count == 5 { signature = (words[3], words[4]) }
    }
  }

  /// Whether a key that this host obeys has signed every part of a command.
  private func isOrdered(_ command: FleetCommand) -> Bool {
    guard !obeyedKeys.isEmpty else { return true }
    let parts = command.byAspect
    return !parts.isEmpty
      && parts.allSatisfy { aspect, part in
        guard let seal = command.seals[aspect].flatMap({ CommandSeal($0) }),
          let (name, code) = seal.signature
        else { return false }
        let text = text(.command, Self.values(part, aspect, given: seal.given))
        return obeyedKeys.contains { $0.short == name && $0.accepts(code, of: text) }
      }
  }

  /// The proof that a host has given a command, and the age of the command.
  ///
  /// If it is signed, only the signed age counts: any writer to the server may have changed the
  /// other one, to make the command seem too old.
  package func proof(of command: FleetCommand, at now: Int64) -> (proof: Proof, age: Duration) {
    guard isOn else { return (.unchecked, command.age) }
    var age = Duration.zero
    var proofs: Set<Proof> = []
    for (aspect, part) in command.byAspect {
      guard let seal = command.seals[aspect].flatMap({ CommandSeal($0) }) else {
        proofs.insert(command.seals[aspect] == nil ? .unsigned : .wrong)
        continue
      }
      let values = Self.values(part, aspect, given: seal.given)
      proofs.insert(proof(seal: seal.seal, .command, values))
      age = max(age, .milliseconds(max(0, now - seal.given)))
    }
    if let worst = [Proof.wrong, .unsigned].first(where: { proofs.contains($0) }) {
      return (worst, command.age)
    }
    // A command about nothing has no part that could be signed.
    return proofs.isEmpty ? (.unsigned, command.age) : (.proven, age)
  }

  /// A command that this host may carry out, with the age that it really has.
  func checked(_ command: FleetCommand, at now: Int64) throws(Refusal) -> FleetCommand {
    let (proof, age) = proof(of: command, at: now)
    try demand(proof, from: command.host)
    if let obeyed, !obeyed.contains(command.host) {
      throw Refusal(
        .authority, host: command.host, "host \(command.host) may not command this one (--obey)")
    }
    guard isOrdered(command) else {
      throw Refusal(
        .authority, host: command.host,
        "no key that this host obeys has signed it (--obey): give it on a host with such a key")
    }
    var command = command
    command.age = age
    command.isProven = proof == .proven
    return command
  }

  /// Whether the keys that sign now have signed a command of this host.
  ///
  /// A host that has no command key any more leaves what it has signed with one as it is.
  func isCurrent(_ command: FleetCommand) -> Bool {
    guard let key = keys.first else { return true }
    return command.byAspect.keys.allSatisfy { aspect in
      guard let seal = command.seals[aspect].flatMap({ CommandSeal($0) }) else { return false }
      let isOrdered = commandKey.map { $0.name.short == seal.signature?.key } ?? true
      return isOrdered && seal.seal.hasPrefix(key.id + ":")
    }
  }

  private static func values(_ part: FleetCommand, _ aspect: String, given: Int64) -> [String] {
    [
      part.name, aspect, part.host, String(part.stamp), String(given),
      CommandText.signedText(of: part),
    ]
  }
}

/// Signing and checking messages.
extension FleetAuthority {
  /// The fields that are not signed: the number, which the server gives, and the seal itself.
  private static let unsignedFields: Set<String> = ["n", "m"]

  private func values(_ fields: [String: String]) -> [String] {
    fields.filter { !Self.unsignedFields.contains($0.key) }.sorted { $0.key < $1.key }
      .flatMap { [$0.key, $0.value] }
  }

  /// Signs the fields of a message; nil without a key.
  package func seal(fields: [String: String]) -> String? { seal(.message, values(fields)) }

  /// Checks the fields of a message.
  package func proof(fields: [String: String]) -> Proof {
    proof(seal: fields["m"], .message, values(fields))
  }
}
