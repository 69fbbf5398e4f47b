internal import BreakerStore
internal import SharedBreaker

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

  deinit { forkGuard.withLock { $0 }?.end() }

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

  /// Ends processes, and wakes the listeners that may take over from them.
  func end(_ ended: [HostProcess]) {
    for process in ended { process.end() }
    memory.listeners.wake()
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
