import BreakerCore
import BreakerStore
import TestSupport
import Testing

@testable import SharedBreaker

/// Breakers for which a store has no room.
@Suite struct LoneBreakerTests {
  private struct Boom: Error {}

  @Test
  func `breakers without room ask the store for room once a second, all of them together`() throws {
    let stage = try Stage()
    let options = StoreOptions(clock: stage.clock.clock)
    let storage = FullStorage(MemoryStorage(clock: options.clock))
    let engine = Engine(storage: storage, options: options, program: "test")
    let cells = (0..<1_000).map { engine.cell("lone \($0)") }
    for cell in cells { engine.declare(BreakerPolicy(maxFailures: 3), for: cell) }
    #expect(engine.look { $0.availability.namesAlone.count } == 1_000)
    for _ in 0..<3 {
      stage.clock.advance(by: .seconds(1))
      storage.transactions = 0
      for cell in cells {
        guard case .permitted = try engine.admit(.init(onFailure: .continueLocally), to: cell)
        else {
          Issue.record("a call was rejected")
          continue
        }
      }
      #expect(storage.transactions <= 1)
    }
    withExtendedLifetime(engine) {}
  }

  @Test func `a breaker that found no room leaves the store alone for a second`() throws {
    let stage = try Stage()
    let options = StoreOptions(clock: stage.clock.clock)
    let storage = FullStorage(MemoryStorage(clock: options.clock))
    let engine = Engine(storage: storage, options: options, program: "test")
    let cell = engine.cell("lone")
    engine.declare(BreakerPolicy(maxFailures: 3), for: cell)
    #expect(storage.transactions == 1)
    for _ in 0..<3 { _ = try engine.admit(.init(onFailure: .continueLocally), to: cell) }
    #expect(storage.transactions == 1)
    withExtendedLifetime(engine) {}
  }

  @Test func `a breaker without room stays open while the store has other troubles`() throws {
    let stage = try Stage()
    var options = StoreOptions(clock: stage.clock.clock)
    options.maximumBreakers = 1
    options.lockTimeout = .milliseconds(5)
    let store = SharedStore(path: stage.store, options: options)
    let shared = try store.breaker("shared", policy: BreakerPolicy(maxFailures: 100))
    let alone = try store.breaker("alone", policy: BreakerPolicy(maxFailures: 1))
    for breaker in [shared, alone] {
      do { try breaker.run { throw Boom() } } catch is Boom {}
    }
    #expect(alone.state == .open)
    do {
      let writer = try Holder(stage.store, "BEGIN IMMEDIATE")
      do { try shared.run { throw Boom() } } catch is Boom {}
      guard case .unavailable(let error) = store.health else {
        Issue.record("the store can be used")
        return
      }
      #expect(error.kind == .busy)
      withExtendedLifetime(writer) {}
    }
    stage.clock.advance(by: .seconds(2))
    #expect(try shared.run { 42 } == 42)
    #expect(store.health == .connected)
    #expect(throws: BreakerError.self) { try alone.run { 42 } }
    #expect(alone.state == .open)
  }

  @Test func `a call of a breaker without room is never permitted from memory`() throws {
    let stage = try Stage()
    let options = StoreOptions(clock: stage.clock.clock)
    let storage = FullStorage(MemoryStorage(clock: options.clock))
    let engine = Engine(storage: storage, options: options, program: "test")
    let cell = engine.cell("lone")
    engine.declare(BreakerPolicy(maxFailures: 3), for: cell)
    #expect(engine.isAlone(cell))
    _ = try engine.known(cell)
    #expect(!cell.word.has(CellWord.permits))
    withExtendedLifetime(engine) {}
  }

  @Test func `a breaker without room that rejects calls says when it asks for room again`() throws {
    let stage = try Stage()
    var options = StoreOptions(clock: stage.clock.clock)
    options.maximumBreakers = 1
    let store = SharedStore(path: stage.store, options: options)
    try store.breaker("shared").run {}
    let alone = try store.breaker("alone", onStoreFailure: .reject)
    for passed in [Duration.zero, .milliseconds(400), .milliseconds(599)] {
      stage.clock.advance(by: passed)
      let error = #expect(throws: BreakerError.self) { try alone.run {} }
      let wait = passed == .zero ? 1_000 : passed == .milliseconds(400) ? 600 : 1 as Int64
      #expect(error?.retryAfter == .milliseconds(wait))
    }
  }
}

/// A storage that has no room for any breaker and counts how often it is asked.
private final class FullStorage: ForwardingStorage, @unchecked Sendable {
  let memory: MemoryStorage
  var transactions = 0

  init(_ memory: MemoryStorage) { self.memory = memory }

  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    transactions += 1
    throw StoreError(.tooManyBreakers, "there is no room")
  }

  func write<Answer>(
    wait: Wait, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?) {
    throw StoreError(.tooManyBreakers, "there is no room")
  }
}
