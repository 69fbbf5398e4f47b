import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore
@testable import SharedBreaker

/// A breaker that is created, deleted or found again while it is being looked up.
@Suite struct ChangedMeanwhileTests {
  private let memory: MemoryStorage
  private let storage: InterruptedStorage
  private let engine: Engine

  init() throws {
    let clock = try Stage().clock.clock
    memory = MemoryStorage(clock: clock)
    storage = InterruptedStorage(memory)
    engine = Engine(storage: storage, options: StoreOptions(clock: clock), program: "test")
  }

  @Test func `a breaker created while it is being looked up is not reported missing`() throws {
    let cell = engine.cell("api")
    _ = try engine.known(engine.cell("other"))
    storage.afterNextReading { [memory, engine] in
      _ = try? memory.transact("api", orCreate: true, wait: .usual) { draft in
        draft.breaker.words.code = "slow-after=1s"
      }
      _ = try? engine.known(cell)
    }
    #expect(try engine.known(cell).exists)
    #expect(engine.isCurrent)
    #expect(cell.word.has(CellWord.measures))
  }

  @Test func `a breaker deleted while it is being looked up does not come back`() throws {
    let other = engine.cell("other")
    _ = try engine.known(other)
    _ = try memory.transact("api", orCreate: true, wait: .usual) { draft in
      draft.apply { record, now in
        record.modeSet(to: .forcedOpen, for: nil, reason: nil, by: "test", at: now)
      }
    }
    _ = try engine.known(other)
    let cell = engine.cell("api")
    storage.afterNextReading { [memory, engine] in
      _ = try? memory.delete("api")
      _ = try? engine.known(cell)
    }
    _ = try engine.known(cell)
    #expect(engine.isCurrent)
    #expect(try engine.known(cell).exists == false)
  }

  @Test func `a breaker that was found again before a commit is not trusted after it`() throws {
    let cell = engine.cell("api")
    _ = try engine.step(cell) { draft in draft.breaker.words.code = "max-failures=1" }
    try engine.refresh()
    // Everything is forgotten and found again between the start of a transaction and its commit.
    storage.beforeNextTransaction { [engine] in
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
  }

  @Test func `a breaker is looked up at each call if its generation does not fit into a word`() {
    var breaker = StoredBreaker(id: 1, name: "api", createdAtMilliseconds: 0)
    for (generation, isKept) in [(CellWord.latestGeneration, true), (1 << 41, false)] {
      breaker.record.generation = generation
      let word = Known(breaker, exists: true).word
      #expect(word.has(CellWord.permits) == isKept)
      if isKept { #expect(word.generation == generation) }
    }
  }
}
