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

/// One value for each state.
public struct PerState<Value: Sendable & Hashable>: Sendable, Hashable {
  /// The value of ``BreakerState/closed``.
  public var closed: Value

  /// The value of ``BreakerState/open``.
  public var open: Value

  /// The value of ``BreakerState/halfOpen``.
  public var halfOpen: Value

  /// Sets one value for every state.
  package init(repeating value: Value) {
    closed = value
    open = value
    halfOpen = value
  }

  /// The value of a state.
  public subscript(state: BreakerState) -> Value {
    get {
      switch state {
      case .closed: closed
      case .open: open
      case .halfOpen: halfOpen
      }
    }
    set {
      switch state {
      case .closed: closed = newValue
      case .open: open = newValue
      case .halfOpen: halfOpen = newValue
      }
    }
  }

  /// Applies a function to each of the values.
  package func map<Result>(_ transform: (Value) -> Result) -> PerState<Result> {
    var result = PerState<Result>(repeating: transform(closed))
    result.open = transform(open)
    result.halfOpen = transform(halfOpen)
    return result
  }
}

/// How long a breaker has been in each state, and how often it has entered it, over its lifetime.
///
/// The values date from when the current state began, and only a change of state writes them. A
/// reader adds the time since then.
package struct StateTally: Sendable, Hashable {
  /// When the current state began; nil if unknown.
  package var since: Instant?

  /// How long the breaker had been in each state when the current one began.
  package var nanoseconds = PerState<Int64>(repeating: 0)

  /// How often the breaker had entered each state from another one when the current one began.
  package var entries = PerState<Int64>(repeating: 0)

  package init() {}

  /// How long the breaker has been in its current state without interruption.
  package func nanosecondsInState(at now: Instant) -> Int64 {
    since.map { max(0, now.since($0)) } ?? 0
  }

  /// How long the breaker has been in each state, given the state that it is in now.
  package func nanoseconds(in state: BreakerState, at now: Instant) -> PerState<Int64> {
    var nanoseconds = nanoseconds
    nanoseconds[state] = nanoseconds[state].addingSaturating(nanosecondsInState(at: now))
    return nanoseconds
  }

  mutating func moved(from state: BreakerState, to next: BreakerState, at now: Instant) {
    nanoseconds = nanoseconds(in: state, at: now)
    if next != state { entries[next] += 1 }
    since = now
  }
}
