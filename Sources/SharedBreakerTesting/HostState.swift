internal import BreakerStore
internal import SharedBreaker

/// What all processes of a test host share.
final class HostState: Sendable {
  let clock = ManualClock()
  let memory: MemoryStorage
  let failure = StoreFailure()

  private let processes = ProcessList()
  private nonisolated(unsafe) var forkGuard: ForkGuard?

  init() {
    memory = MemoryStorage(
      clock: clock.storeClock, program: "test", isGone: { [processes] in processes.isGone($0) })
    // Once for all stores, whose engines would each take the same lock.
    unsafe forkGuard = ForkGuard(
      of: self, before: { [memory] in memory.willFork() },
      after: { [memory] _ in memory.didFork() })
  }

  deinit { unsafe forkGuard?.end() }

  var main: HostProcess { processes.main }
  func startProcess() -> HostProcess { processes.start() }
  var running: [HostProcess] { processes.running }

  /// What one of the processes knows of all.
  func processes(seenBy process: HostProcess) -> HostProcesses {
    HostProcesses(
      current: { process.identity },
      find: { [processes] pid in processes.running.first { $0.identity.pid == pid }?.identity },
      isGone: { [processes] in processes.isGone($0) },
      ending: { process.ending })
  }

  /// Ends processes, and wakes those that may take over from them.
  func end(_ ended: [HostProcess]) {
    for process in ended { process.end() }
    memory.listeners.wake()
  }
}

/// The processes of a test host, those that have ended included.
private final class ProcessList: Sendable {
  private let lock = Lock()
  private nonisolated(unsafe) var processes: [HostProcess] = []

  /// Numbers mean these processes, and no real ones.
  private let namespace = UInt64.random(in: 1 ... .max)

  /// The process that is there as long as nobody asks for others; it has the number of this one.
  var main: HostProcess {
    lock.withLock {
      let pid = ProcessTable.ownPid
      return unsafe processes.first { $0.identity.pid == pid && $0.isRunning } ?? started(as: pid)
    }
  }

  func start() -> HostProcess {
    lock.withLock {
      // Never the number of the main process, which may come later.
      unsafe started(as: ProcessTable.ownPid &+ Int32(processes.count) &+ 1)
    }
  }

  var running: [HostProcess] { lock.withLock { unsafe processes }.filter { $0.isRunning } }

  func isGone(_ identity: ProcessIdentity) -> Bool {
    lock.withLock { unsafe processes }.contains { $0.identity == identity && !$0.isRunning }
  }

  /// Under the lock.
  private func started(as pid: Int32) -> HostProcess {
    let start = unsafe UInt64(processes.count) + 1
    let process = HostProcess(
      ProcessIdentity(pid: pid, startTicks: start, pidNamespace: namespace))
    unsafe processes.append(process)
    return process
  }
}
