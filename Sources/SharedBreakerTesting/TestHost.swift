internal import BreakerStore
public import SharedBreaker

/// A host in memory: a clock that is moved by hand, and one store that its processes share.
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
  private let state = HostState()

  /// Makes a host that nobody has used yet.
  public init() {}

  /// The time of the host.
  public var clock: ManualClock { state.clock }

  /// The store of the host; all that are asked for here belong to one process.
  ///
  /// - Parameters:
  ///   - program: The name of the program in the history.
  ///   - timer: What calls wait by, if it is not to be the clock of the host.
  ///   - onStoreFailure: What a call does while the store fails.
  ///   - observer: Is told what happens, as by `StoreOptions`.
  /// - Returns: A store that behaves as one with a file.
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
  /// - Parameter program: The name of the program in the history.
  /// - Returns: The process, which runs until it is killed or the host is rebooted.
  public func process(program: String = "test") -> TestProcess {
    TestProcess(state.startProcess(), of: state, program: program)
  }

  /// Lets the store fail for every process, until ``mendStore()``.
  ///
  /// With `.busy`, `.diskFull` and `.readOnly` it can still be read, with `.tooManyBreakers` only new
  /// breakers cannot be made, and with any other kind nothing works. As with a file, a process notices
  /// when it next needs the store, which a healthy call does not.
  public func failStore(with kind: StoreError.Kind = .inputOutput) { state.failure.set(kind) }

  /// Lets the store work again; each process tries it again a second after its last try.
  public func mendStore() { state.failure.set(nil) }

  /// Ends all processes and begins another boot of the host.
  ///
  /// The boot clock begins again, while the wall clock and ``clock`` have moved on. Leases and windows
  /// are void, and what was left of an open time or a mode goes on. Ask for new stores: those that there
  /// were belong to processes that have ended.
  ///
  /// - Parameter time: How long the host was down.
  public func reboot(after time: Duration = .zero) {
    state.end(state.running)
    clock.beginBoot(after: time)
    state.memory.carryOverReboot()
    // Wakes those whose time came while the host was down.
    clock.advance(by: .zero)
  }
}
