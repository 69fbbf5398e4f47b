/// What a command can be about: of two commands about the same aspect of a breaker, one wins.
package enum FleetAspect: Sendable, Hashable {
  case state
  case mode
  case policy(PolicyKey)

  private static let policyPrefix = "policy:"

  /// The name of the aspect in files and messages, which never changes.
  package var text: String {
    switch self {
    case .state: "state"
    case .mode: "mode"
    case .policy(let key): Self.policyPrefix + key.rawValue
    }
  }

  /// Reads the name of an aspect; nil if this version knows no such aspect.
  package init?(text: String) {
    switch text {
    case "state": self = .state
    case "mode": self = .mode
    default:
      guard text.hasPrefix(Self.policyPrefix),
        let key = PolicyKey(rawValue: String(text.dropFirst(Self.policyPrefix.count)))
      else { return nil }
      self = .policy(key)
    }
  }
}

extension FleetCommand.Action {
  /// The aspects that the action is about.
  var aspects: [FleetAspect] {
    switch self {
    case .trip, .reset: [.state]
    case .force: [.mode]
    case .policy(let values, let keys):
      PolicyKey.allCases.filter { values[$0] != nil || keys.contains($0) }.map { .policy($0) }
    }
  }

  /// The part of the action that is about an aspect.
  func only(_ aspect: FleetAspect) -> FleetCommand.Action {
    guard case .policy(let values, let keys) = self, case .policy(let key) = aspect else {
      return self
    }
    if let value = values[key] { return .policy(set: [key: value], unset: []) }
    return .policy(set: [:], unset: keys.intersection([key]))
  }
}

extension FleetAspect {
  package var isPolicy: Bool {
    if case .policy = self { return true }
    return false
  }
}
