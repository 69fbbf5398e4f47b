import SharedBreaker

/// What is measured, by the name that a child process receives.
enum Load: String {
  case bare, atomic, boot, coarse
  case consecutive, window, last, slow
  case bareAwait = "bare-await"
  case awaited
  case bareActor = "bare-actor"
  case actor
  case decided, thrown
  case rawTimeout = "raw-timeout"
  case raw, failure
  case library = "c-library"

  /// The loop of the load, with a store and a connection of its own.
  func loop(in room: Room) throws -> Loop { try loop(in: room, on: room.openStore()) }

  /// The loop of the load, with a store that other loops use too.
  func loop(in room: Room, on store: SharedStore) throws -> Loop {
    switch self {
    case .bare, .atomic, .boot, .coarse: return bareLoop
    case .consecutive, .window, .last, .slow:
      return HealthyLoops.calls(try breaker(of: store))
    case .bareAwait: return AsynchronousLoops.bare
    case .bareActor: return AsynchronousLoops.bareOnActor
    case .awaited:
      return AsynchronousLoops.calls(try store.breaker("awaited", policy: consecutivePolicy))
    case .actor:
      return AsynchronousLoops.callsOnActor(
        try store.breaker("actor", policy: consecutivePolicy))
    case .library: return try HealthyLoops.libraryCalls(in: room)
    case .decided: return RejectionLoops.decided(try openBreaker(of: store))
    case .thrown: return RejectionLoops.thrown(try openBreaker(of: store))
    case .rawTimeout:
      let raw = try RawStore(room.file("raw-timeout.db"), waiting: .timeout)
      return { count in for _ in 0..<count { try raw.increment() } }
    case .raw:
      let raw = try RawStore(room.file("raw.db"), waiting: .likeLibrary)
      return { count in for _ in 0..<count { try raw.increment() } }
    case .failure:
      return FailureLoops.failures(try FailureLoops.breaker("failing", of: store))
    }
  }

  private var consecutivePolicy: BreakerPolicy { BreakerPolicy(maxFailures: 5) }

  private func breaker(of store: SharedStore) throws -> Breaker {
    let policy =
      switch self {
      case .window: BreakerPolicy(failureRate: 0.5, window: .seconds(60))
      case .last: BreakerPolicy(failureRate: 0.5, last: 100)
      case .slow: BreakerPolicy(slowRate: 0.5, slowAfter: .seconds(1), window: .seconds(60))
      default: consecutivePolicy
      }
    return try store.breaker(rawValue, policy: policy, onStoreFailure: .throw)
  }

  private func openBreaker(of store: SharedStore) throws -> Breaker {
    let breaker = try store.breaker(rawValue, policy: consecutivePolicy, onStoreFailure: .throw)
    try breaker.trip(for: .seconds(86_400))
    return breaker
  }
}
