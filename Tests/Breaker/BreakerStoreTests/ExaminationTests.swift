import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

/// A process that examines its own store.
@Suite struct ExaminationTests {
  private func storage(_ stage: Stage) -> SQLiteStorage {
    SQLiteStorage(path: stage.store, clock: stage.clock.clock, program: "test")
  }

  @Test func `a process can begin to use a store while it examines it`() throws {
    let stage = try Stage()
    do {
      let store = stage.sharedStore()
      try store.breaker("api").trip()
      store.close()
    }
    let looking = try Connection.reading(
      try StoreSite(stage.store), isAlone: false, lockTimeout: .seconds(1))
    let storage = storage(stage)
    try storage.open(mayCreate: false)
    try storage.proveWritable()
    withExtendedLifetime(looking) {}
  }

  @Test func `the examination of a large store stops when the process is about to fork`() throws {
    let stage = try Stage()
    let storage = storage(stage)
    try storage.open(mayCreate: true)
    _ = try storage.transact(
      together: (0..<2_000).map { NamedStep("breaker-\($0)") { _ in } }, mustBeNew: true)
    let reader = try #require(
      try Connection.reading(try StoreSite(stage.store), isAlone: false, lockTimeout: .seconds(1)))
    let tables = TableExamination(reader: reader)
    let cut = tables.integrity(unless: { true })
    #expect(cut.found == "no damage in what was checked before this process forked")
    #expect(cut.result == .note)
    #expect(tables.integrity(unless: { false }).result == .ok)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a waiting fork goes before the next look at the store`() throws {
    let gate = ForkGate()
    let isOver = Guarded(false)
    let looks = Guarded(0)
    let threads = Threads()
    threads.start {
      while !isOver.withLock({ $0 }) {
        try? gate.shut {
          if gate.isForkWaiting { looks.withLock { $0 += 1 } }
          usleep(100)
        }
      }
    }
    let forks = 20
    for _ in 0..<forks {
      gate.willFork()
      gate.didFork()
    }
    isOver.withLock { $0 = true }
    threads.join()
    // One look may have passed the gate just before each fork.
    #expect(looks.withLock { $0 } <= forks)
  }

  @Test func `a store without damage is not set aside`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    let identity = StoreFile.identity(of: stage.store)
    let doctor = StoreDoctor(
      path: stage.store, clock: stage.clock.clock, program: "test", lockTimeout: .seconds(5))
    let words = try doctor.startOver()
    #expect(words == "there is no damage while nobody writes, so it was left as it is")
    #expect(StoreFile.identity(of: stage.store) == identity)
    let names = Files.names(in: try StoreSite(stage.store).directory)
    #expect(!names.contains { $0.contains(".new-") || $0.contains(".corrupt-") }, "\(names)")
  }
}
