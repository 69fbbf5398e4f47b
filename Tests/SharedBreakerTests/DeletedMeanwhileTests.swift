import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore
@testable import SharedBreaker

@Suite struct `A breaker deleted while it is being looked up` {
  @Test func `does not come back`() throws {
    let stage = try Stage()
    let clock = stage.clock.clock
    let memory = MemoryStorage(clock: clock, program: "test")
    let storage = InterruptedStorage(memory)
    let engine = Engine(
      storage: storage, options: StoreOptions(clock: clock), program: "test")
    let other = engine.cell("other")
    _ = try engine.known(other)
    _ = memory.transact("api", orCreate: true, wait: .usual) { draft in
      draft.apply { record, now in
        record.modeSet(to: .forcedOpen, for: nil, reason: nil, by: "test", at: now)
      }
    }
    _ = try engine.known(other)
    let cell = engine.cell("api")
    storage.afterNextFind {
      _ = memory.delete("api", ifStill: nil)
      _ = try? engine.known(cell)
    }
    _ = try engine.known(cell)
    #expect(engine.isCurrent)
    #expect(try engine.known(cell).exists == false)
    withExtendedLifetime(engine) {}
  }
}

@Suite struct `A breaker made while it is being looked up` {
  @Test func `is not taken for one that is not there`() throws {
    let stage = try Stage()
    let clock = stage.clock.clock
    let memory = MemoryStorage(clock: clock, program: "test")
    let storage = InterruptedStorage(memory)
    let engine = Engine(
      storage: storage, options: StoreOptions(clock: clock), program: "test")
    let cell = engine.cell("api")
    _ = try engine.known(engine.cell("other"))
    storage.afterNextFind {
      _ = memory.transact("api", orCreate: true, wait: .usual) { draft in
        draft.breaker.codeWords = "slow-after=1s"
      }
      _ = try? engine.known(cell)
    }
    #expect(try engine.known(cell).exists)
    #expect(engine.isCurrent)
    #expect(cell.word.has(CellWord.measures))
    withExtendedLifetime(engine) {}
  }

  @Test func `is not taken for what it was before a commit that was not learned`() throws {
    let stage = try Stage()
    let clock = stage.clock.clock
    let memory = MemoryStorage(clock: clock, program: "test")
    let storage = InterruptedStorage(memory)
    let engine = Engine(
      storage: storage, options: StoreOptions(clock: clock), program: "test")
    let cell = engine.cell("api")
    _ = try engine.step(cell) { draft in draft.breaker.codeWords = "max-failures=1" }
    try engine.refresh()
    // All is forgotten and found again between the beginning of a transaction and its commit.
    storage.beforeNextTransaction {
      engine.update { $0.knowledge.forgetAll() }
      _ = try? engine.known(cell)
    }
    _ = try engine.step(cell) { draft in
      let policy = draft.breaker.policy
      draft.apply { record, now in
        record.tripped(for: nil, reason: nil, at: now, policy: policy, jitter: 0)
      }
    }
    #expect(!engine.isCurrent || !cell.word.has(CellWord.permits))
    try engine.refresh()
    #expect(try engine.known(cell).breaker.record.state == .open)
    withExtendedLifetime(engine) {}
  }

  @Test func `is looked up at each call if its generation is too late for a word`() {
    var breaker = StoredBreaker(id: 1, name: "api", createdAtMilliseconds: 0)
    for (generation, isKept) in [(CellWord.latestGeneration, true), (1 << 41, false)] {
      breaker.record.generation = generation
      let word = Known(breaker, exists: true).word
      #expect(word.has(CellWord.permits) == isKept)
      if isKept { #expect(word.generation == generation) }
    }
  }
}
