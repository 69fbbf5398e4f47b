internal import JSONText
@_spi(Relay) internal import ProgramKit
@_spi(Relay) package import SharedBreaker

/// A command as JSON text, which hosts exchange.
package enum CommandText {
  /// The text of a command; its stamp and host travel separately.
  package static func text(of command: FleetCommand) -> String {
    var rest = [JSONValue.Member("age_ms", JSONValue(milliseconds: command.age))]
    if !command.seals.isEmpty {
      let seals = command.seals.sorted { $0.key < $1.key }
      rest.append(
        .init("seals", .string(seals.map { "\($0.key)=\($0.value)" }.joined(separator: " "))))
    }
    return text(of: command, with: rest)
  }

  /// The signed part of a command, which never changes on its way.
  static func signedText(of command: FleetCommand) -> String { text(of: command, with: []) }

  private static func text(of command: FleetCommand, with rest: [JSONValue.Member]) -> String {
    let members =
      FleetGiving.members(of: command.action) + [
        .init("reason", JSONValue(command.reason)), .init("by", .string(command.author)),
        .init("user", JSONValue(command.verifiedUser)),
      ]
    return JSONValue.object(members.filter { $0.value != .null } + rest).text
  }

  /// Reads a command.
  ///
  /// - Throws: `Refusal` if this version cannot carry it out.
  package static func command(
    _ text: String, name: String, host: String, stamp: Int64
  ) throws(Refusal) -> FleetCommand {
    let values: JSONFields
    do throws(JSONError) {
      values = try JSONFields(text, standingFor: "a command")
    } catch {
      throw Refusal(.command, error.description)
    }
    guard let author = values.text("by"), author.utf8.count <= 1_024 else {
      throw Refusal(.command, "the command does not say who gave it")
    }
    let user = values.text("user")
    guard user.map({ $0.utf8.count <= 1_024 }) ?? true else {
      throw Refusal(.command, "the command names a user with more than 1024 bytes")
    }
    guard stamp > 0 else { throw Refusal(.command, "the command has the stamp 0") }
    return FleetCommand(
      name: name, action: try values.action(), reason: values.text("reason"), author: author,
      host: host, stamp: stamp, age: try values.time("age_ms") ?? .zero,
      seals: values.seals(), verifiedUser: user)
  }
}

/// The members of a command.
extension JSONFields {
  /// The age of the oldest command that is worth telling.
  private static let longestAge = DurationText.milliseconds(.seconds(100 * 365 * 86_400))

  fileprivate func time(_ key: String) throws(Refusal) -> Duration? {
    switch self[key] {
    case .null, nil: return nil
    case .number(let digits):
      guard let number = Int64(digits), (0...Self.longestAge).contains(number) else { break }
      return .milliseconds(number)
    default: break
    }
    throw Refusal(.command, "the command's \(key) is not a number of milliseconds")
  }

  /// The proofs of the host that has given the command, by aspect.
  fileprivate func seals() -> [String: String] {
    let words = (text("seals") ?? "").split(separator: " ").map {
      $0.split(separator: "=", maxSplits: 1).map(String.init)
    }
    return Dictionary(words.filter { $0.count == 2 }.map { ($0[0], $0[1]) }) { first, _ in first }
  }

  fileprivate func action() throws(Refusal) -> FleetCommand.Action {
    switch text("action") {
    case "trip": return .trip(for: try limited(time("for_ms")))
    case "reset": return .reset
    case "end-hold": return .endHold
    case "force":
      guard let mode = text("mode").flatMap({ BreakerMode(wireName: $0) }) else {
        throw Refusal(.command, "the command sets a mode that this cbrelay does not know")
      }
      return .force(mode, for: try limited(time("for_ms")))
    case "policy": return .policy(set: try set(), unset: try unset())
    default: throw Refusal(.command, "the command's action is one that this cbrelay does not know")
    }
  }

  private func limited(_ time: Duration?) throws(Refusal) -> Duration? {
    guard let time else { return nil }
    guard time > .zero, time <= FleetMessage.longestTime else {
      throw Refusal(.command, "the command's for_ms is not from 1 ms to 365 days")
    }
    return time
  }

  private func set() throws(Refusal) -> [PolicyKey: String] {
    var values: [PolicyKey: String] = [:]
    for word in (text("set") ?? "").split(separator: " ") {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2 else { throw Self.unknownKey(parts[0]) }
      values[try Self.key(parts[0])] = String(parts[1])
    }
    return values
  }

  private func unset() throws(Refusal) -> Set<PolicyKey> {
    var keys: Set<PolicyKey> = []
    for word in (text("unset") ?? "").split(separator: " ") { keys.insert(try Self.key(word)) }
    return keys
  }

  private static func key(_ word: Substring) throws(Refusal) -> PolicyKey {
    guard let key = PolicyKey(rawValue: String(word)) else { throw unknownKey(word) }
    return key
  }

  private static func unknownKey(_ word: Substring) -> Refusal {
    Refusal(
      .command,
      "the command is about the policy value '\(OutsideText.quoted(String(word)))', which this"
        + " cbrelay does not know")
  }
}
