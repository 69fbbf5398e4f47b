import SharedBreaker
import TestSupport
import Testing

/// When a breaker was last used, and its deletion only if it has not been used since.
struct UseTests {
  private let stage: TemporaryDirectory
  private let store: SharedStore

  init() throws {
    stage = try TemporaryDirectory()
    store = SharedStore(path: stage.store)
  }

  @Test func `the time of the last use is unknown after a success until it is noted`() throws {
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 3))
    #expect(try #require(try store.snapshot(of: "api")).lastUsedAt != nil)
    try breaker.run {}
    #expect(try #require(try store.snapshot(of: "api")).lastUsedAt == nil)
    #expect(try store.noteUse(of: "api"))
    #expect(try #require(try store.snapshot(of: "api")).lastUsedAt != nil)
    #expect(try #require(try store.snapshot(of: "api")).totals.successes == 1)
    #expect(try !store.noteUse(of: "other"))
  }

  @Test func `a breaker that was used since it was looked at is not deleted`() throws {
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 3))
    try breaker.run {}
    for use in [{ try breaker.run {} }, { try breaker.reset() }, { breaker.fail() }] {
      let looked = try #require(try store.snapshot(of: "api"))
      try use()
      #expect(try !store.delete(ifStillAs: looked))
    }
    let looked = try #require(try store.snapshot(of: "api"))
    #expect(try store.delete(ifStillAs: looked))
    #expect(try store.snapshot(of: "api") == nil)
    #expect(try !store.delete(ifStillAs: looked))
  }

  @Test func `the time of the last use is unknown after the counters are lost`() throws {
    _ = try store.breaker("api", policy: BreakerPolicy(maxFailures: 3)).run {}
    #expect(try store.noteUse(of: "api"))
    store.close()
    Files.removeAll(stage.store + "-counters")
    #expect(try #require(try store.snapshot(of: "api")).lastUsedAt == nil)
    #expect(try store.noteUse(of: "api"))
    #expect(try #require(try store.snapshot(of: "api")).lastUsedAt != nil)
  }
}

extension Breaker {
  fileprivate func fail() {
    try? run { throw Down() }
  }
}

private struct Down: Error {}
