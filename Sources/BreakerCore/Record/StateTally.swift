/// One value for each state.
public struct PerState<Value> {
  /// The value of ``BreakerState/closed``.
  public var closed: Value

  /// The value of ``BreakerState/open``.
  public var open: Value

  /// The value of ``BreakerState/halfOpen``.
  public var halfOpen: Value

  /// The same value for every state.
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

extension PerState: Sendable where Value: Sendable {}
extension PerState: Equatable where Value: Equatable {}
extension PerState: Hashable where Value: Hashable {}

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
