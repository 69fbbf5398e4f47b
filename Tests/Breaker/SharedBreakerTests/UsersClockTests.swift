import Glibc
import SharedBreaker
import Synchronization
import TestShim
import TestSupport
import Testing

/// A clock of the user, which may do anything that a caller may.
@Suite(.timeLimit(.minutes(60))) struct UsersClockTests {
  @Test func `no lock that a caller needs is held while the user's clock is read`() async {
    await #expect(processExitsWith: .success) {
      // A clock that is read under the lock waits for itself.
      ts_limit(600)
      let directory = try TemporaryDirectory()
      let time = Atomic<Int64>(1_000_000_000_000)
      let store = Guarded<SharedStore?>(nil)
      let clock = StoreClock(
        bootNanoseconds: {
          _ = store.withLock { $0 }?.health
          return time.load(ordering: .relaxed)
        }, wallMilliseconds: { 1_800_000_000_000 }, bootID: { "one" })
      let shared = SharedStore(path: directory.store, options: StoreOptions(clock: clock))
      let breaker = try shared.breaker(
        "api", policy: BreakerPolicy(failureRate: 1.0, window: .seconds(1), minCalls: 1_000))
      breaker.run(1)
      try breaker.acquire().fail()
      store.withLock { $0 = shared }
      for _ in 0..<30 {
        time.wrappingAdd(70_000_000, ordering: .relaxed)
        breaker.run(3)
      }
      exit(0)
    }
  }
}

extension Breaker {
  fileprivate func run(_ times: Int) {
    for _ in 0..<times {
      do { try run {} } catch { exit(1) }
    }
  }
}
