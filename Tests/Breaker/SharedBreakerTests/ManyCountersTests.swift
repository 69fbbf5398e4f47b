import SharedBreaker
import TestSupport
import Testing

@Suite struct ManyCountersTests {
  @Test(.timeLimit(.minutes(60)), arguments: [0, 1_020, 5_000_000, 200_000_000])
  func `each breaker has its own counters, however far apart the rows are`(start: Int) throws {
    let stage = try Stage()
    let stores = [stage.sharedStore(), stage.sharedStore()]
    try stores[0].breaker("first").run {}
    try stores[0].breaker("first").reset()
    try Database.rows(stage.store, "UPDATE sqlite_sequence SET seq = \(start + 1)")
    let names = (0..<40).map { "breaker \($0)" }
    let policy = BreakerPolicy(failureRate: 1.0, window: .seconds(10), minCalls: 1_000)
    for (index, name) in names.enumerated() {
      for (number, store) in stores.enumerated() {
        let breaker = try store.breaker(name, policy: policy)
        for _ in 0...(index + number) { try breaker.run {} }
      }
    }
    for (index, name) in names.enumerated() {
      for store in stores {
        let snapshot = try store.breaker(name).snapshot()
        #expect(snapshot.totals.successes == 2 * index + 3, "\(name)")
        #expect(snapshot.windowCalls == 2 * index + 3, "\(name)")
      }
    }
  }
}
