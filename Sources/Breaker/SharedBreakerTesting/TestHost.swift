internal import BreakerStore
public import SharedBreaker

/// A host in memory for tests: a clock that you move, and one store that its processes share.
///
/// Nothing is written to a disk and nothing waits, so a test of a policy takes less than a millisecond:
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
  ///   - onStoreFailure: The action of a call while the store fails.
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
    state.memory.forgetCalls()
    // Wakes the sleepers whose time came while the host was down.
    clock.advance(by: .zero)
  }
}

/// The state that all processes of a test host share.
final class HostState: Sendable {
  let clock = ManualClock()
  let memory: MemoryStorage
  let failure = StoreFailure()

  private let processes = ProcessList()
  private let forkGuard = Guarded<ForkGuard?>(nil)

  init() {
    memory = MemoryStorage(
      clock: clock.storeClock, program: "test", isGone: { [processes] in processes.isGone($0) })
    // Done here once: each store's engine would take the same lock.
    let made = ForkGuard(
      of: self, before: { [memory] in memory.willFork() },
      after: { [memory] _ in memory.didFork() })
    forkGuard.withLock { $0 = made }
  }

  deinit {
    memory.end()
    forkGuard.withLock { $0 }?.end()
  }

  var main: HostProcess { processes.main }
  func startProcess() -> HostProcess { processes.start() }
  var running: [HostProcess] { processes.running }

  /// The processes of the host, as one of them sees them.
  func processes(seenBy process: HostProcess) -> HostProcesses {
    HostProcesses(
      current: { process.identity },
      find: { [processes] pid in processes.running.first { $0.identity.pid == pid }?.identity },
      ending: { process.ending })
  }

  /// Ends processes, and wakes the listeners and the callers that may take over from them.
  func end(_ ended: [HostProcess]) {
    for process in ended { process.end() }
    memory.listeners.wake()
    memory.letDeathsBeSeen()
  }
}

/// The processes of a test host, including those that have ended.
private final class ProcessList: Sendable {
  private let processes = Guarded<[HostProcess]>([])

  /// A namespace of its own, so that the numbers are not mistaken for those of real processes.
  private let namespace = UInt64.random(in: 1 ... .max)

  /// The main process of the host, which has the number of the real process.
  var main: HostProcess {
    processes.withLock { processes in
      let pid = ProcessTable.ownPid
      return processes.first { $0.identity.pid == pid && $0.isRunning }
        ?? start(as: pid, among: &processes)
    }
  }

  func start() -> HostProcess {
    processes.withLock { processes in
      // Never the number of the main process, which may be started later.
      start(as: ProcessTable.ownPid &+ Int32(processes.count) &+ 1, among: &processes)
    }
  }

  var running: [HostProcess] { processes.withLock { $0 }.filter { $0.isRunning } }

  func isGone(_ identity: ProcessIdentity) -> Bool {
    processes.withLock { $0 }.contains { $0.identity == identity && !$0.isRunning }
  }

  private func start(as pid: Int32, among processes: inout [HostProcess]) -> HostProcess {
    let process = HostProcess(
      ProcessIdentity(
        pid: pid, startTicks: UInt64(processes.count) + 1, pidNamespace: namespace))
    processes.append(process)
    return process
  }
}

/// Whether and how the store of a test host fails.
final class StoreFailure: Sendable {
  /// The purpose that the store is needed for.
  enum Purpose { case reading, writing, making }

  private let kind = Guarded<StoreError.Kind?>(nil)

  func set(_ kind: StoreError.Kind?) { self.kind.withLock { $0 = kind } }

  /// Throws if the store fails for a purpose.
  func check(_ purpose: Purpose) throws(StoreError) {
    if let error = error(purpose) { throw error }
  }

  /// Why the store fails for a purpose; nil if it does not.
  func error(_ purpose: Purpose) -> StoreError? {
    guard let kind = kind.withLock({ $0 }), Self.prevents(kind, purpose) else { return nil }
    return StoreError(
      kind, "the store of the test host fails (\(kind)), as it was told to: call repairStore()")
  }

  private static func prevents(_ kind: StoreError.Kind, _ purpose: Purpose) -> Bool {
    switch kind {
    case .tooManyBreakers: purpose == .making
    case .busy, .diskFull, .readOnly: purpose != .reading
    case .missing, .notADirectory, .isDirectory, .isSymbolicLink, .permissionDenied, .corrupt,
      .notAStore, .newerVersion, .networkFileSystem, .inputOutput, .other:
      true
    }
  }
}
