import BreakerCore
import Glibc
import TestSupport
import Testing

@testable import BreakerStore

/// Steps that threads of a process take at the same time.
@Suite struct GroupCommitTests {
  private typealias Result = Swift.Result<Transacted<Int>?, StoreError>

  private let directory: TemporaryDirectory
  private let storage: SQLiteStorage

  init() throws {
    directory = try TemporaryDirectory()
    storage = SQLiteStorage(path: directory.store, lockTimeout: .seconds(60), program: "test")
    try storage.open(mayCreate: true)
  }

  private func revision() throws -> Int64 { try storage.changes(since: nil).revision }

  /// Runs the steps of `count` threads, all of which arrive before the first transaction begins.
  private func together(
    _ count: Int, _ step: @escaping @Sendable (Int) throws(StoreError) -> Transacted<Int>?
  ) throws -> [Result] {
    let results = Guarded([Int: Result]())
    var holder: Holder? = try Holder(directory.store, "BEGIN IMMEDIATE")
    let threads = Threads()
    for index in 0..<count {
      threads.start {
        let result = Result { () throws(StoreError) in try step(index) }
        results.withLock { $0[index] = result }
      }
    }
    // One thread leads and waits for the holder; the others wait for that thread.
    while storage.steps.waitingCount < count - 1 { sched_yield() }
    withExtendedLifetime(holder) {}
    holder = nil
    threads.join()
    return try (0..<count).map { index in try #require(results.withLock { $0[index] }) }
  }

  @Test(.timeLimit(.minutes(60)))
  func `simultaneous steps are one transaction, and each gets its own answer`() throws {
    let storage = storage
    for name in ["a", "b", "c"] {
      _ = try storage.transact(name, orCreate: true, wait: .usual) { _ in }
    }
    let before = try revision()
    let results = try together(9) { index throws(StoreError) in
      try storage.transact(["a", "b", "c"][index % 3], orCreate: false, wait: .usual) { draft in
        draft.breaker.record.totals.failures += 1
        draft.note(.policy(from: "\(index)", to: ""), reason: nil)
        return index
      }
    }
    #expect(try revision() == before + 1)
    for (index, result) in results.enumerated() {
      let transacted = try #require(try result.get())
      #expect(transacted.answer == index)
      #expect(transacted.events.map(\.change.wireFrom) == ["\(index)"])
      // The final state: an earlier one would be mistaken for the latest of that revision.
      #expect(transacted.breaker.name == ["a", "b", "c"][index % 3])
      #expect(transacted.breaker.record.totals.failures == 3)
      #expect(transacted.breaker.revision == before + 1)
      let all = (transacted.others + [transacted.breaker]).sorted { $0.name < $1.name }
      #expect(try all == storage.all())
      #expect(transacted.fingerprints?.after == storage.currentFingerprint())
    }
    #expect(
      try Set(storage.history(of: nil, sinceMilliseconds: nil, limit: nil).map(\.change.wireFrom))
        == Set((0..<9).map { "\($0)" }))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a step that a transaction takes along happens after it was asked for`() throws {
    let directory = try TemporaryDirectory()
    // The time goes on once no step waits to be taken along.
    let waiting = Guarded<SQLiteStorage?>(nil)
    let clock = StoreClock(
      bootNanoseconds: {
        guard let storage = waiting.withLock({ $0 }) else { return 1_000 }
        return storage.steps.waitingCount > 0 ? 2_000 : 3_000
      }, wallMilliseconds: { 1_790_000_000_000 }, bootID: { "boot" })
    let storage = SQLiteStorage(
      path: directory.store, lockTimeout: .seconds(60), clock: clock, program: "test")
    try storage.open(mayCreate: true)
    let times = Guarded<[Int64]>([])
    var holder: Holder? = try Holder(directory.store, "BEGIN IMMEDIATE")
    let threads = Threads()
    for name in ["a", "b"] {
      threads.start {
        _ = try? storage.transact(name, orCreate: true, wait: .usual) { draft in
          times.withLock { $0.append(draft.now.boot.nanoseconds) }
        }
      }
    }
    while storage.steps.waitingCount < 1 { sched_yield() }
    waiting.withLock { $0 = storage }
    withExtendedLifetime(holder) {}
    holder = nil
    threads.join()
    waiting.withLock { $0 = nil }
    #expect(times.withLock { $0 } == [3_000, 3_000])
  }

  @Test(.timeLimit(.minutes(60)))
  func `simultaneous steps create a breaker once, and none where they may not`() throws {
    let storage = storage
    let results = try together(8) { index throws(StoreError) in
      try storage.transact(index < 4 ? "new" : "none", orCreate: index < 4, wait: .usual) { draft in
        draft.breaker.record.totals.failures += 1
        return index
      }
    }
    for (index, result) in results.enumerated() {
      #expect(try result.get()?.breaker.record.totals.failures == (index < 4 ? 4 : nil))
    }
    #expect(try storage.all().map(\.name) == ["new"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `simultaneous steps all fail with their transaction, which leaves nothing behind`() throws {
    let storage = storage
    _ = try storage.transact("api", orCreate: true, wait: .usual) { _ in }
    let before = try storage.all()
    let results = try together(6) { index throws(StoreError) in
      try storage.transact("api", orCreate: true, wait: .usual) { draft in
        // The table refuses a generation that is not positive.
        draft.breaker.record.generation = -1
        return index
      }
    }
    for result in results {
      #expect(throws: StoreError.self) { try result.get() }
    }
    #expect(try storage.all() == before)
    _ = try storage.transact("api", orCreate: true, wait: .usual) { draft in
      draft.breaker.record.totals.failures = 7
    }
    #expect(try storage.find("api")?.record.totals.failures == 7)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a step with a brief wait gives up while a simultaneous step waits on`() throws {
    let storage = storage
    _ = try storage.transact("api", orCreate: true, wait: .usual) { _ in }
    var holder: Holder? = try Holder(directory.store, "BEGIN IMMEDIATE")
    let threads = Threads()
    threads.start {
      _ = try? storage.transact("api", orCreate: true, wait: .usual) { draft in
        draft.breaker.record.totals.failures += 1
      }
    }
    // Either thread may lead. The one with the brief wait gives up while the other one waits.
    #expect(throws: StoreError.self) {
      try storage.transact("api", orCreate: true, wait: .brief) { draft in
        draft.breaker.record.totals.failures += 100
      }
    }
    withExtendedLifetime(holder) {}
    holder = nil
    threads.join()
    #expect(try storage.find("api")?.record.totals.failures == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `simultaneous steps are all counted, on the same breaker and on different ones`() throws {
    let storage = storage
    let each = rounds(2_000)
    Threads.run(8) { thread in
      for round in 0..<each {
        for name in ["same", "own \(thread)", "shared \((thread + round) % 3)"] {
          let transacted = try? storage.transact(name, orCreate: true, wait: .usual) { draft in
            draft.breaker.record.totals.failures += 1
            return draft.breaker.record.totals.failures
          }
          guard let transacted else { preconditionFailure("a step was not taken") }
          precondition(transacted.answer <= transacted.breaker.record.totals.failures)
        }
      }
    }
    let failures = Dictionary(
      uniqueKeysWithValues: try storage.all().map { ($0.name, Int($0.record.totals.failures)) })
    #expect(failures["same"] == 8 * each)
    #expect((0..<8).allSatisfy { failures["own \($0)"] == each })
    #expect((0..<3).map { failures["shared \($0)"] ?? 0 }.reduce(0, +) == 8 * each)
    #expect(try Database.integrity(directory.store) == "ok")
  }
}
