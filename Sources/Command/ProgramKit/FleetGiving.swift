public import JSONText
@_spi(Relay) public import SharedBreaker

/// A command to a fleet that a program is about to give.
///
/// `cbctl` tells the relay before it gives the command, so that the relay learns the user from the
/// kernel. The content of a store proves nothing about that, because all its users can write to it.
public struct FleetGiving: Sendable, Hashable {
  /// The action of the command, as a text that is the same before and after it was given.
  public var deed: String

  /// Why; nil if the command gives no reason.
  public var reason: String?

  /// The breakers that it is for.
  public var names: [String]

  /// Describes a command that is about to be given.
  @_spi(Relay) public init(_ action: FleetCommand.Action, reason: String?, to names: [String]) {
    self.init(deed: Self.deed(action), reason: reason, names: names)
  }

  private init(deed: String, reason: String?, names: [String]) {
    self.deed = deed
    self.reason = reason
    self.names = names
  }

  /// How many bytes of names fit into one announcement; the rest goes into further ones.
  public static let roomForNames = 32_768

  /// Whether a command that was given is one of those that were announced.
  @_spi(Relay) public func announces(_ command: FleetCommand) -> Bool {
    guard deed == Self.deed(command.action) else { return false }
    guard let kept = command.reason, let reason else { return command.reason == reason }
    // A store keeps only so much of a reason.
    return reason == kept || (!kept.isEmpty && reason.hasPrefix(kept))
  }

  private static func deed(_ action: FleetCommand.Action) -> String {
    JSONValue.object(members(of: action)).text
  }

  /// An action as members of an object.
  @_spi(Relay) public static func members(of action: FleetCommand.Action) -> [JSONValue.Member] {
    switch action {
    case .trip(let time):
      return [.init("action", .string("trip")), .init("for_ms", JSONValue(milliseconds: time))]
    case .reset:
      return [.init("action", .string("reset"))]
    case .endHold:
      return [.init("action", .string("end-hold"))]
    case .force(let mode, let time):
      return [
        .init("action", .string("force")), .init("mode", .string(mode.wireName)),
        .init("for_ms", JSONValue(milliseconds: time)),
      ]
    default:
      guard case .policy(let values, let keys) = action else { return [] }
      let set = PolicyKey.allCases.compactMap { key in values[key].map { "\(key.rawValue)=\($0)" } }
      let unset = PolicyKey.allCases.filter(keys.contains).map(\.rawValue)
      return [
        .init("action", .string("policy")), .init("set", .string(set.joined(separator: " "))),
        .init("unset", .string(unset.joined(separator: " "))),
      ]
    }
  }
}

extension FleetGiving {
  /// The announcement in one line.
  var words: String {
    JSONValue.object([
      .init("deed", .string(deed)), .init("reason", JSONValue(reason)),
      .init("names", .array(names.map { .string($0) })),
    ]).text
  }

  /// Reads a line; nil if it announces nothing.
  init?(words: String) {
    guard let fields = try? JSONFields(words, standingFor: "a command"),
      let deed = fields.text("deed"), let names = fields.texts("names")
    else { return nil }
    self.init(deed: deed, reason: fields.text("reason"), names: names)
  }
}

/// The answer of `cbrelay` to an announcement.
public struct FleetGiverSeen: Sendable, Hashable {
  /// The user whom it has seen; nil if the kernel cannot name them.
  public var user: String?

  /// Describes the user who was seen.
  public init(user: String?) { self.user = user }

  /// The answer.
  public var document: JSONValue {
    .object([.init("version", .integer(1)), .init("user", JSONValue(user))])
  }
}
