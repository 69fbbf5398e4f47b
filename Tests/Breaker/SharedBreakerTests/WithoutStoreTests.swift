import SharedBreaker
import TestSupport
import Testing

@Suite struct WithoutStoreTests {
  private struct Boom: Error {}

  private func fail(_ breaker: Breaker) { try? breaker.run { throw Boom() } }

  @Test(.timeLimit(.minutes(60)))
  func `a process forgets what it saw without its store once the store is back`() throws {
    let stage = try Stage()
    var options = StoreOptions(clock: stage.clock.clock)
    options.lockTimeout = .milliseconds(5)
    let store = SharedStore(path: stage.store, options: options)
    let api = try store.breaker("api", policy: BreakerPolicy(maxFailures: 1, openFor: .seconds(60)))
    let other = try store.breaker("other")
    do {
      let writer = try Holder(stage.store, "BEGIN IMMEDIATE")
      fail(api)
      #expect(api.state == .open)
      withExtendedLifetime(writer) {}
    }
    stage.clock.advance(by: .seconds(2))
    #expect(try api.run { 42 } == 42)
    #expect(store.health == .connected)
    let writer = try Holder(stage.store, "BEGIN IMMEDIATE")
    fail(other)
    #expect(store.health != .connected)
    #expect(try api.run { 42 } == 42)
    withExtendedLifetime(writer) {}
  }
}
