@_spi(Relay) import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// Stores in memory, which use their databases again.
@Suite(.timeLimit(.minutes(60))) struct MemoryStorageTests {
  @Test func `a store in memory begins empty, whatever earlier stores held`() throws {
    var lineages: Set<Int64> = []
    for _ in 0..<20 {
      let stage = try StorageStage(.memory)
      #expect(try stage.revision() == 0)
      #expect(try stage.picture() == StorageStage(.file).picture())
      #expect(lineages.insert(try stage.storage.lineage()).inserted)
      try stage.hear()
      let made = try stage.step("api") { draft in
        draft.give(.force(.observe, for: nil))
        draft.declaration = "probes=2"
      }
      #expect(made?.breaker.id == 1)
      let hook = HookRequest(
        hook: "pager", name: nil, process: ProcessTable.current(), timeout: .seconds(60),
        attempts: 2)
      #expect(try stage.storage.answer(hook) == .idle)
      try stage.step("api") { $0.trip(for: .seconds(60)) }
      #expect(try stage.storage.answer(hook).breaker == "api")
      #expect(try stage.storage.pendingOrders(limit: .max).map(\.id) == [1])
    }
  }

  @Test func `a process that goes on alone begins with what it last knew of a breaker`() throws {
    let stage = try StorageStage(.file)
    try stage.fail("api")
    let known = try #require(try stage.step("api") { $0.trip(for: .seconds(60)) }).breaker
    let memory = MemoryStorage(clock: stage.clock.clock, program: "test", isGone: { _ in false })
    #expect(memory.find("api") == nil)
    #expect(memory.transact("api", beginningAs: nil, { _ in Issue.record("it was asked") }) == nil)
    let taken = try #require(
      memory.transact("api", beginningAs: known) { $0.breaker.record.totals.failures += 1 })
    var record = known.record
    record.totals.failures += 1
    #expect(taken.breaker.record == record && taken.breaker.words == known.words)
    #expect(taken.breaker.createdAtMilliseconds == known.createdAtMilliseconds)
    let again = memory.transact("api", beginningAs: known) { $0.breaker.record.totals.failures }
    #expect(again?.answer == record.totals.failures)
    _ = memory.transact("lone", beginningAs: known.renamed("lone")) { _ in }
    memory.clear(keeping: ["lone"])
    #expect(memory.find("api") == nil && memory.find("lone") != nil)
    memory.forget("lone")
    #expect(memory.find("lone") == nil)
    let anew = memory.transact("api", beginningAs: known) { $0.breaker.record.totals.failures }
    #expect(anew?.answer == known.record.totals.failures)
    memory.clear(keeping: [])
    #expect(memory.find("api") == nil)
  }
}

extension StoredBreaker {
  fileprivate func renamed(_ name: String) -> StoredBreaker {
    var breaker = self
    breaker.name = name
    return breaker
  }
}
