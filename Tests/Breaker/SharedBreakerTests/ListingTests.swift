import BreakerStore
import SharedBreaker
import TestSupport
import Testing

/// Lists of many breakers.
@Suite struct ListingTests {
  /// A store with so many breakers that they are not all read at once.
  private func stage(with count: Int) throws -> Stage {
    let stage = try Stage()
    try stage.sharedStore().connect()
    try Database.rows(
      stage.store,
      """
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
      INSERT INTO breaker (name, revision, code_policy)
      SELECT printf('standing-%05d', i * 7919 % \(count)), i, 'max-failures=3' FROM n
      """)
    return stage
  }

  @Test(.timeLimit(.minutes(60)))
  func `a list shows each breaker once while others come and go`() throws {
    let count = 601
    let stage = try stage(with: count)
    let standing = (0..<count).map { number in
      let digits = String(number)
      return "standing-" + String(repeating: "0", count: 5 - digits.count) + digits
    }
    let isOver = Guarded(false)
    let threads = Threads()
    threads.start {
      let other = stage.sharedStore()
      var round = 0
      while !isOver.withLock({ $0 }) {
        _ = try? other.breaker(standing[round % count] + "-passing").trip()
        // Some still exist when their turn comes again; others return in a different row.
        _ = try? other.delete(standing[round / 2 % count] + "-passing")
        round += 7
      }
    }
    let store = stage.sharedStore()
    for _ in 0..<rounds(100) {
      let seen = try store.snapshots().map(\.name)
      let isInOrder = zip(seen, seen.dropFirst()).allSatisfy { $0 < $1 }
      let isWhole = seen.filter { !$0.hasSuffix("-passing") } == standing
      #expect(isInOrder && isWhole)
    }
    isOver.withLock { $0 = true }
    threads.join()
  }

  @Test func `a list shows the same for each breaker as a snapshot of it alone`() throws {
    let stage = try stage(with: 501)
    let store = stage.sharedStore()
    let policy = BreakerPolicy(failureRate: 0.5, window: .seconds(60))
    for name in ["plain", "overruled", "tripped", "probed", "held"] {
      _ = try store.breaker(name, policy: policy)
    }
    try store.breaker("overruled").overridePolicy(set: [.openFor: "1m"])
    try store.breaker("tripped").trip()
    try store.breaker("probed").trip(for: .seconds(1))
    try store.breaker("held").force(.forcedOpen, for: .seconds(90), reason: "new disks")
    stage.clock.advance(by: .seconds(2))
    _ = try store.breaker("probed").acquireToken()
    let all = try store.snapshots()
    #expect(all.count == 506)
    #expect(all.first { $0.name == "probed" }?.leases.count == 1)
    #expect(all.first { $0.name == "overruled" }?.source(of: .openFor) == .operator)
    #expect(all.first { $0.name == "plain" }?.source(of: .openFor) == .default)
    for snapshot in all { #expect(try store.snapshot(of: snapshot.name) == snapshot) }
  }

  @Test func `a list can be limited by what names begin with`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let names = ["Pay", "pay", "pay-eu", "payé", "pay\u{10FFFF}", "pb", "o", "pa"]
    for name in names { try store.breaker(name).trip() }
    let chosen = ["pay", "pay-eu", "payé", "pay\u{10FFFF}"]
    #expect(try store.names(beginningWith: "pay") == chosen)
    #expect(try store.snapshots(beginningWith: "pay").map(\.name) == chosen)
    #expect(try store.snapshots(beginningWith: "pay", in: .open).map(\.name) == chosen)
    #expect(try store.snapshots(beginningWith: "pay", in: .closed).isEmpty)
    #expect(try store.snapshots { $0.hasSuffix("b") }.map(\.name) == ["pb"])
    #expect(try store.names() == ["Pay", "o", "pa"] + chosen + ["pb"])
    #expect(try store.names(beginningWith: "x").isEmpty)
  }

  @Test func `a list can be limited by the state that a breaker has when it is read`() throws {
    let stage = try stage(with: 3)
    let store = stage.sharedStore()
    for name in ["a", "b", "c"] { try store.breaker(name).trip() }
    #expect(try store.snapshots(in: .open).map(\.name) == ["a", "b", "c"])
    #expect(try store.snapshots(in: .closed).count == 3)
    #expect(try store.snapshots(in: .halfOpen).isEmpty)
    // Nothing is locked while the filter runs, so others can write meanwhile.
    let left = try store.snapshots(in: .open) { name in
      if name == "a" { try? store.breaker("c").reset() }
      if name == "b" { _ = try? store.delete("a") }
      return true
    }
    #expect(left.map(\.name) == ["b"])
  }
}
