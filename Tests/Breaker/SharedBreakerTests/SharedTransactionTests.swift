import BreakerCore
import BreakerStore
import TestSupport
import Testing

@testable import SharedBreaker

@Suite struct SharedTransactionTests {
  private func engine(_ directory: TemporaryDirectory) -> Engine {
    let storage = SQLiteStorage(path: directory.store, lockTimeout: .seconds(60), program: "test")
    return Engine(storage: storage, options: StoreOptions(), program: "test")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a report is known to every other thread as soon as it is acknowledged`() throws {
    let directory = try TemporaryDirectory()
    let engine = engine(directory)
    let acknowledged = Guarded([Int64](repeating: 0, count: 6))
    let each = rounds(2_000)
    let cells = (0..<6).map { engine.cell("breaker \($0)") }
    let stale = Guarded(0)
    Threads.run(6) { thread in
      for round in 1...each {
        let done = try? engine.step(cells[thread]) { draft in
          draft.breaker.record.totals.failures += 1
        }
        guard done != nil else { preconditionFailure("a step was not taken") }
        acknowledged.withLock { $0[thread] = Int64(round) }
        for other in 0..<6 {
          let least = acknowledged.withLock { $0[other] }
          let known = (try? engine.known(cells[other]))?.breaker.record.totals.failures
          if known ?? 0 < least { stale.withLock { $0 += 1 } }
        }
      }
    }
    #expect(stale.withLock { $0 } == 0)
    for cell in cells {
      #expect(try engine.known(cell).breaker.record.totals.failures == Int64(each))
    }
    withExtendedLifetime(engine) {}
  }

  @Test(.timeLimit(.minutes(60)))
  func `all breakers of a shared transaction are known before its fingerprint is trusted`() throws {
    let directory = try TemporaryDirectory()
    let engine = engine(directory)
    let (mine, others) = (engine.cell("mine"), engine.cell("other's"))
    for cell in [mine, others] { _ = try engine.step(cell) { _ in } }
    _ = try engine.known(mine)
    func fail(_ name: String) throws -> Transacted<Void> {
      try #require(
        try engine.storage.transact(name, orCreate: false, wait: .usual) { draft in
          draft.breaker.record.totals.failures += 1
        })
    }
    let other = try fail("other's")
    var own = try fail("mine")
    own.others = [other.breaker]
    engine.hasCommitted(
      own, of: mine, .nothing, after: engine.look { $0.knowledge.forgettings }, nil)
    #expect(engine.lastKnown(others).breaker == other.breaker)
    #expect(engine.lastKnown(mine).breaker == own.breaker)
    withExtendedLifetime(engine) {}
  }

  @Test(.timeLimit(.minutes(60)))
  func `a transaction is not trusted if everything was forgotten while it was under way`() throws {
    let directory = try TemporaryDirectory()
    let engine = engine(directory)
    let cell = engine.cell("api")
    _ = try engine.step(cell) { _ in }
    _ = try engine.known(cell)
    let forgettings = engine.look { $0.knowledge.forgettings }
    let tripped = try #require(
      try engine.storage.transact("api", orCreate: false, wait: .usual) { draft in
        draft.apply { record, now in
          record.tripped(for: nil, reason: nil, at: now, policy: BreakerPolicy(), jitter: 0)
        }
      })
    engine.update { $0.knowledge.forgetAll() }
    engine.hasCommitted(tripped, of: cell, .nothing, after: forgettings, nil)
    #expect(!engine.isCurrent)
    #expect(try engine.known(cell).breaker.record.state == .open)
    withExtendedLifetime(engine) {}
  }
}

extension OwnShare {
  fileprivate static var nothing: OwnShare {
    OwnShare(declared: nil, isUndeclared: false, pending: Counted())
  }
}
