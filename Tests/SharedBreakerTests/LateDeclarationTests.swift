import SharedBreaker
import TestSupport
import Testing

@Suite struct LateDeclarationTests {
  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `a policy declared while the store is locked takes effect afterwards`(fails: Bool) throws {
    let stage = try Stage()
    _ = try stage.sharedStore().breaker("api", policy: BreakerPolicy(maxFailures: 3))
    let options = StoreOptions(lockTimeout: .milliseconds(20), clock: stage.clock.clock)
    let store = SharedStore(path: stage.store, options: options)
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 7))
    #expect(holder != nil && store.health != .connected)
    holder = nil
    stage.clock.advance(by: .seconds(2))
    for _ in 0..<2 {
      if fails { _ = try breaker.acquire().fail() } else { try breaker.run {} }
      stage.clock.advance(by: .seconds(2))
    }
    #expect(store.health == .connected)
    #expect(try stage.sharedStore().snapshot(of: "api")?.policy.maxFailures == 7)
    let declared = try store.declarations(of: "api")
    #expect(declared.map(\.text) == ["max-failures=3", "max-failures=7"])
    #expect(declared.map(\.isInForce) == [false, true])
  }
}
