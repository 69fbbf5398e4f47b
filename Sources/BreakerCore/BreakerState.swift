/// Where a breaker stands between its resource and its callers.
///
/// The integers are stored in files and the wire names are printed in JSON: neither ever changes.
public enum BreakerState: Int, Sendable, Hashable, CaseIterable {
  /// Calls go through, and their outcomes are watched.
  case closed = 0

  /// Calls are rejected until the open time is over.
  case open = 1

  /// A limited number of calls on the whole host find out whether the resource is back.
  case halfOpen = 2

  /// The name of the state in JSON, SQL and on the command line.
  public var wireName: String {
    switch self {
    case .closed: "closed"
    case .open: "open"
    case .halfOpen: "half_open"
    }
  }

  /// Finds the state with a wire name, or nil if there is none.
  public init?(wireName: String) {
    guard let state = Self.allCases.first(where: { $0.wireName == wireName }) else { return nil }
    self = state
  }
}

extension BreakerState {
  /// Whether a breaker that was last written in this state may be in another one by now.
  ///
  /// Time alone opens one whose probe takes too long, and nothing else.
  package func mayBecome(_ other: BreakerState) -> Bool {
    self == other || (self == .halfOpen && other == .open)
  }
}

/// What an operator, or code, has laid on top of the state.
///
/// The integers are stored in files and the wire names are printed in JSON: neither ever changes.
public enum BreakerMode: Int, Sendable, Hashable, CaseIterable {
  /// The state alone decides.
  case automatic = 0

  /// Every call is rejected, whatever the state.
  case forcedOpen = 1

  /// Every call goes through, whatever the state.
  case forcedClosed = 2

  /// The state moves and is recorded as ever, but no call is rejected.
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

  /// Finds the mode with a wire name, or nil if there is none.
  public init?(wireName: String) {
    guard let mode = Self.allCases.first(where: { $0.wireName == wireName }) else { return nil }
    self = mode
  }
}
