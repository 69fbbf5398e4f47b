internal import BreakerStore
public import SharedBreaker

/// A host in memory for tests: a clock that you move, and one store that its processes share.
///
/// Nothing is written to a disk and nothing waits, so you can test a policy in microseconds:
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
  private let state = HostState()

  /// Creates a host with an empty store.
  public init() {}

  /// The clock of the host.
  public var clock: ManualClock { state.clock }

  /// Returns the store of the host, as its main process uses it.
  ///
  /// All stores that you get here belong to one process. For others, see ``process(program:)``.
  ///
  /// - Parameters:
  ///   - program: The name of the program in the history.
  ///   - timer: The timer that calls wait by; the clock of the host if nil.
  ///   - onStoreFailure: What a call does while the store fails.
  ///   - observer: Called with what happens, like `StoreOptions.observer`.
  /// - Returns: A store that behaves like one in a file.
  public func store(
    program: String = "test", timer: StoreTimer? = nil,
    onStoreFailure: StoreFailureAction = .continueLocally,
    observer: (@Sendable (StoreEvent) -> Void)? = nil
  ) -> SharedStore {
    TestProcess(state.main, of: state, program: program).store(
      timer: timer, onStoreFailure: onStoreFailure, observer: observer)
  }

  /// Starts another process of the host.
  ///
  /// ```swift
  /// let worker = host.process(program: "worker")
  /// let breaker = try worker.store().breaker("api")
  /// let permit = try breaker.acquire()
  /// worker.kill()
  /// ```
  ///
  /// - Parameter program: The name of the program in the history.
  /// - Returns: The process, which runs until it is killed or the host is rebooted.
  public func process(program: String = "test") -> TestProcess {
    TestProcess(state.startProcess(), of: state, program: program)
  }

  /// Makes the store fail for every process, until you call ``repairStore()``.
  ///
  /// With `.busy`, `.diskFull` and `.readOnly` the store can still be read. With `.tooManyBreakers`
  /// only new breakers cannot be created. With any other kind nothing works. As with a file, a
  /// process notices the failure when it next needs the store; a healthy call does not need it.
  public func failStore(with kind: StoreError.Kind = .inputOutput) { state.failure.set(kind) }

  /// Makes the store work again.
  ///
  /// Each process tries the store again a second after its last attempt.
  public func repairStore() { state.failure.set(nil) }

  /// Ends all processes and boots the host again.
  ///
  /// The boot clock starts again, while the wall clock and ``clock`` continue. Leases and windows
  /// are void, and the rest of an open time or of a mode continues to run. Ask for new stores
  /// afterwards: the old ones belong to processes that have ended.
  ///
  /// - Parameter time: How long the host was down.
  public func reboot(after time: Duration = .zero) {
    state.end(state.running)
    clock.beginBoot(after: time)
    state.memory.carryOverReboot()
    // Wakes the sleepers whose time came while the host was down.
    clock.advance(by: .zero)
  }
}
