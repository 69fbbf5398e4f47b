import BreakerStore
import Glibc
import SharedBreaker
import Synchronization
import TestShim
import TestSupport
import Testing

/// The release of the last reference to a store.
@Suite struct StoreReleaseTests {
  @Test(.forksBesideThreads, .timeLimit(.minutes(60)))
  func `a store can be released while another thread forks`() async {
    await #expect(processExitsWith: .success) { try letGoWhileForking() }
  }
}

/// A clock that can keep its readers waiting.
private final class ClockGate: Sendable {
  let isShut = Atomic(false)
  let isReached = Atomic(false)

  var clock: StoreClock {
    StoreClock(
      bootNanoseconds: { 1_000_000_000_000 },
      wallMilliseconds: {
        while self.isShut.load(ordering: .sequentiallyConsistent) {
          self.isReached.store(true, ordering: .sequentiallyConsistent)
          usleep(1_000)
        }
        return 1_800_000_000_000
      },
      bootID: { "boot" })
  }
}

private func letGoWhileForking() throws {
  ts_limit(600)
  let stage = try Stage()
  // Without a file for the counters, the process has counts of its own to write.
  try Files.makeDirectory(stage.directory.file("state"))
  try Files.makeDirectory(stage.store + "-counters")
  let gate = ClockGate()
  let held = Held()
  try held.fill(stage.store, gate.clock)
  gate.isShut.store(true, ordering: .sequentiallyConsistent)
  let threads = Threads()
  threads.start { held.letGo() }
  // The last totals are being written, and the clock is read in the middle of that.
  while !gate.isReached.load(ordering: .sequentiallyConsistent) { usleep(1_000) }
  threads.start {
    let child = ts_fork()
    if child == 0 { _exit(0) }
    var status: Int32 = 0
    unsafe waitpid(child, &status, 0)
    precondition(status == 0)
  }
  usleep(100_000)
  gate.isShut.store(false, ordering: .sequentiallyConsistent)
  threads.join()
  let stored = try Database.value(stage.store, "SELECT successes FROM breaker")
  precondition(stored == "1")
}

/// The only holder of a store, so that releasing it here ends it.
private final class Held: Sendable {
  private let store = Guarded<SharedStore?>(nil)

  @inline(never) func fill(_ path: String, _ clock: StoreClock) throws {
    let store = SharedStore(path: path, options: StoreOptions(clock: clock))
    try store.breaker("api").run {}
    self.store.withLock { $0 = store }
  }

  func letGo() { store.withLock { $0 = nil } }
}
