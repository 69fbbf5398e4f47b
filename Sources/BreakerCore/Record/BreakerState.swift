/// Whether a breaker permits or rejects calls.
///
/// No version adds cases, so a `switch` over a state needs no `default`. The
/// integers are stored in files and the wire names appear in JSON, so neither ever changes.
public enum BreakerState: Int, Sendable, Hashable, CaseIterable {
  /// Calls go through, and their outcomes are watched.
  case closed = 0

  /// Calls are rejected until the open time is over.
  case open = 1

  /// A limited number of calls on the whole host find out whether the resource has recovered.
  case halfOpen = 2

  /// The name of the state in JSON, SQL and on the command line.
  public var wireName: String {
    switch self {
    case .closed: "closed"
    case .open: "open"
    case .halfOpen: "half_open"
    }
  }

  /// Creates the state with a wire name; nil if there is none.
  public init?(wireName: String) {
    guard let state = Self.allCases.first(where: { $0.wireName == wireName }) else { return nil }
    self = state
  }
}

extension BreakerState {
  /// Whether a breaker that was last written in this state can be in the other one by now.
  ///
  /// Time alone changes only one state: a half-open breaker opens when a probe takes too long.
  package func mayBecome(_ other: BreakerState) -> Bool {
    self == other || (self == .halfOpen && other == .open)
  }
}

/// An override that an operator, or code, applies on top of the state.
///
/// A later version may add cases, so end a `switch` over a mode with `default`. The integers are
/// stored in files and the wire names appear in JSON, so neither ever changes.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum BreakerMode: Int, Sendable, Hashable, CaseIterable {
  /// The state alone decides.
  case automatic = 0

  /// Every call is rejected, whatever the state.
  case forcedOpen = 1

  /// Every call goes through, whatever the state.
  case forcedClosed = 2

  /// The state changes and is recorded as usual, but no call is rejected.
  case observe = 3

  /// The name of the mode in JSON and SQL.
  public var wireName: String {
    switch self {
    case .automatic: "automatic"
    case .forcedOpen: "forced_open"
    case .forcedClosed: "forced_closed"
    case .observe: "observe"
    }
  }

  /// Creates the mode with a wire name; nil if there is none.
  public init?(wireName: String) {
    guard let mode = Self.allCases.first(where: { $0.wireName == wireName }) else { return nil }
    self = mode
  }
}

extension BreakerState: CustomStringConvertible {
  /// The state as `cbctl` and JSON call it.
  public var description: String { wireName }
}

extension BreakerMode: CustomStringConvertible {
  /// The mode as JSON calls it.
  public var description: String { wireName }
}
