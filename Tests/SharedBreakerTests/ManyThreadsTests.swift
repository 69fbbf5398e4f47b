import BreakerStore
import SharedBreaker
import TestSupport
import Testing

@Suite struct ManyThreadsTests {
  @Test(.timeLimit(.minutes(60)))
  func `threads that meet an unreadable file wait side by side, not one after the other`() throws {
    let stage = try Stage()
    try Files.makeDirectory(stage.directory.file("state"))
    let holder = try Holder(stage.store, "CREATE TABLE t (a); BEGIN EXCLUSIVE")
    let options = StoreOptions(lockTimeout: .milliseconds(500), clock: stage.clock.clock)
    let store = SharedStore(path: stage.store, options: options)
    let breaker = try store.breaker("api")
    let longest = Guarded(Duration.zero)
    Threads.run(12) { _ in
      let time = ContinuousClock().measure { _ = try? breaker.run {} }
      longest.withLock { $0 = max($0, time) }
    }
    #expect(longest.withLock { $0 } < .seconds(3))
    withExtendedLifetime(holder) {}
  }
}
