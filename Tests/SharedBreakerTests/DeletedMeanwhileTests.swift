import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore
@testable import SharedBreaker

@Suite struct DeletedMeanwhileTests {
  @Test func `a breaker deleted while it is being looked up does not come back`() throws {
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
