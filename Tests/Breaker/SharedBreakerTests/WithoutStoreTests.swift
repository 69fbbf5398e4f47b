import BreakerStore
import TestSupport
import Testing

@testable import SharedBreaker

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

  @Test(.timeLimit(.minutes(60)))
  func `a process has a database in memory only while it is without its store`() throws {
    let stage = try Stage()
    var options = StoreOptions(clock: stage.clock.clock)
    options.lockTimeout = .milliseconds(5)
    let store = SharedStore(path: stage.store, options: options)
    let api = try store.breaker("api", policy: BreakerPolicy(maxFailures: 2, openFor: .seconds(60)))
    try api.run {}
    fail(api)
    try api.trip(reason: "an outage")
    fail(api)
    try api.reset()
    #expect(api.snapshot().totals.failures == 1)
    #expect(store.engine.local.isUnused)
    do {
      let writer = try Holder(stage.store, "BEGIN IMMEDIATE")
      fail(api)
      #expect(store.health != .connected && !store.engine.local.isUnused)
      withExtendedLifetime(writer) {}
    }
    stage.clock.advance(by: .seconds(2))
    try api.run {}
    #expect(store.health == .connected && store.engine.local.isUnused)
  }
}
