import BreakerStore
import SharedBreaker
import TestSupport
import Testing

@Suite struct StoreRoomTests {
  private final class Told: Sendable {
    let names = Guarded<[String]>([])
  }

  private func store(on stage: Stage, _ told: Told = Told()) -> SharedStore {
    var options = StoreOptions(clock: stage.clock.clock)
    options.maximumBreakers = 3
    options.observer = { event in
      if case .notShared(let name, _) = event { told.names.withLock { $0.append(name) } }
      if case .unavailable = event { told.names.withLock { $0.append("the store") } }
    }
    return SharedStore(path: stage.store, options: options)
  }

  private struct Boom: Error {}

  private func fail(_ breaker: Breaker) { try? breaker.run { throw Boom() } }

  @Test
  func `a full store keeps its breakers and reports once which one it does not share`() throws {
    let stage = try Stage()
    let told = Told()
    let store = store(on: stage, told)
    let policy = BreakerPolicy(maxFailures: 2)
    let shared = try (0..<3).map { try store.breaker("shared \($0)", policy: policy) }
    shared.forEach { fail($0) }
    let alone = try store.breaker("alone", policy: policy)
    #expect(try alone.run { 42 } == 42)
    fail(alone)
    #expect(alone.state == .closed)
    fail(alone)
    #expect(alone.state == .open)
    #expect(throws: BreakerError.self) { try alone.run { 42 } }
    guard case .unavailable(let error) = alone.health else {
      Issue.record("it is shared")
      return
    }
    #expect(error.kind == .tooManyBreakers)
    #expect("\(error)".contains("has 3 breakers"))
    #expect(told.names.withLock { $0 } == ["alone"])

    #expect(store.health == .connected)
    #expect(shared[0].health == .connected)
    fail(shared[0])
    #expect(try store.snapshot(of: "shared 0")?.state == .open)
    #expect(try store.names() == ["shared 0", "shared 1", "shared 2"])
  }

  @Test func `a full store takes in a breaker when another has gone`() throws {
    let stage = try Stage()
    let store = store(on: stage)
    for name in ["a", "b", "c"] { fail(try store.breaker(name)) }
    let late = try store.breaker("late", policy: BreakerPolicy(maxFailures: 1))
    fail(late)
    #expect(late.state == .open)
    #expect(try store.delete("b"))
    stage.clock.advance(by: .seconds(2))
    // The store decides again, and it does not know what one process has seen alone.
    #expect(try late.run { 42 } == 42)
    #expect(late.health == .connected)
    #expect(try store.names() == ["a", "c", "late"])
    fail(late)
    #expect(try store.snapshot(of: "late")?.state == .open)
  }

  @Test func `a full store refuses changes that only make sense for all processes`() throws {
    let stage = try Stage()
    let store = store(on: stage)
    for name in ["a", "b", "c"] { fail(try store.breaker(name)) }
    let other = try store.breaker("other")
    for change in [{ try other.trip() }, { try other.overridePolicy(set: [.probes: "2"]) }] {
      do {
        try change()
        Issue.record("it was made")
      } catch BreakerError.store(let error) {
        #expect(error.kind == .tooManyBreakers)
      }
    }
    #expect(try store.names().count == 3)
    try store.breaker("a").trip()
    #expect(try store.snapshot(of: "a")?.state == .open)
  }

  @Test func `the limit of a store counts its rows, not the ids that were ever given`() throws {
    let stage = try Stage()
    let store = store(on: stage)
    for round in 0..<20 {
      fail(try store.breaker("of round \(round)"))
      #expect(try store.delete("of round \(round)"))
    }
    fail(try store.breaker("last"))
    #expect(try store.names() == ["last"])
  }

  @Test func `a breaker without room has no effect on others in the same transaction`() throws {
    let stage = try Stage()
    let store = store(on: stage)
    let policy = BreakerPolicy(maxFailures: 1_000_000)
    let kept = try (0..<3).map { try store.breaker("kept \($0)", policy: policy) }
    kept.forEach { fail($0) }
    Threads.run(4) { thread in
      for round in 0..<50 {
        if thread < 2 {
          self.fail(kept[thread])
        } else {
          _ = try? store.breaker("new \(thread) \(round)").trip()
        }
      }
    }
    #expect(store.health == .connected)
    #expect(
      try (0..<3).map { try store.snapshot(of: "kept \($0)")?.totals.failures } == [51, 51, 1])
    #expect(try store.names().count == 3)
  }
}
