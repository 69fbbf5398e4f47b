internal import BreakerStore
internal import SharedBreaker

/// The state that all processes of a test host share.
final class HostState: Sendable {
  let clock = ManualClock()
  let memory: MemoryStorage
  let failure = StoreFailure()

  private let processes = ProcessList()
  private nonisolated(unsafe) var forkGuard: ForkGuard?

  init() {
    memory = MemoryStorage(
      clock: clock.storeClock, program: "test", isGone: { [processes] in processes.isGone($0) })
    // Done here once: each store's engine would take the same lock.
    unsafe forkGuard = ForkGuard(
      of: self, before: { [memory] in memory.willFork() },
      after: { [memory] _ in memory.didFork() })
  }

  deinit { unsafe forkGuard?.end() }

  var main: HostProcess { processes.main }
  func startProcess() -> HostProcess { processes.start() }
  var running: [HostProcess] { processes.running }

  /// The processes of the host, as one of them sees them.
  func processes(seenBy process: HostProcess) -> HostProcesses {
    HostProcesses(
      current: { process.identity },
      find: { [processes] pid in processes.running.first { $0.identity.pid == pid }?.identity },
      isGone: { [processes] in processes.isGone($0) },
      ending: { process.ending })
  }

  /// Ends processes, and wakes the listeners that may take over from them.
  func end(_ ended: [HostProcess]) {
    for process in ended { process.end() }
    memory.listeners.wake()
  }
}

/// The processes of a test host, including those that have ended.
private final class ProcessList: Sendable {
  private let lock = Lock()
  private nonisolated(unsafe) var processes: [HostProcess] = []

  /// A namespace of its own, so that the numbers are not mistaken for those of real processes.
  private let namespace = UInt64.random(in: 1 ... .max)

  /// The main process of the host, which has the number of the real process.
  var main: HostProcess {
    lock.withLock {
      let pid = ProcessTable.ownPid
      return unsafe processes.first { $0.identity.pid == pid && $0.isRunning } ?? started(as: pid)
    }
  }

  func start() -> HostProcess {
    lock.withLock {
      // Never the number of the main process, which may be started later.
      unsafe started(as: ProcessTable.ownPid &+ Int32(processes.count) &+ 1)
    }
  }

  var running: [HostProcess] { lock.withLock { unsafe processes }.filter { $0.isRunning } }

  func isGone(_ identity: ProcessIdentity) -> Bool {
    lock.withLock { unsafe processes }.contains { $0.identity == identity && !$0.isRunning }
  }

  /// Creates a process; the caller holds the lock.
  private func started(as pid: Int32) -> HostProcess {
    let start = unsafe UInt64(processes.count) + 1
    let process = HostProcess(
      ProcessIdentity(pid: pid, startTicks: start, pidNamespace: namespace))
    unsafe processes.append(process)
    return process
  }
}
