internal import BreakerStore
public import SharedBreaker

/// A host in memory: a clock that is moved by hand, and one store that all who ask for it share.
///
/// Nothing is written anywhere and nothing waits, so a policy is tested in microseconds:
///
/// ```swift
/// let host = TestHost()
/// let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 2))
/// for _ in 0..<2 { try? breaker.run { throw Refused() } }
/// #expect(breaker.state == .open)
/// host.clock.advance(by: .seconds(30))
/// try breaker.run {}
/// #expect(breaker.state == .closed)
/// ```
public final class TestHost: Sendable {
  /// The time of the host.
  public let clock: ManualClock

  private let memory: MemoryStorage

  /// Makes a host that nobody has used yet.
  public init() {
    clock = ManualClock()
    memory = MemoryStorage(clock: clock.storeClock, program: "test")
  }

  /// The store of the host as one process uses it; ask again for another process's view of it.
  ///
  /// - Parameters:
  ///   - program: The name of the program in the history.
  ///   - timer: What calls wait by, if it is not to be the clock of the host.
  ///   - observer: Is told what happens, as by `StoreOptions`.
  /// - Returns: A store that behaves as one with a file, except that it never fails.
  public func store(
    program: String = "test", timer: StoreTimer? = nil,
    observer: (@Sendable (StoreEvent) -> Void)? = nil
  ) -> SharedStore {
    SharedStore(
      storage: memory,
      options: StoreOptions(
        program: program, clock: clock.storeClock, timer: timer ?? clock.storeTimer,
        observer: observer))
  }
}
