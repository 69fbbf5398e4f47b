import Testing

@testable import BreakerCore

/// Calls that were under way when their process ended.
@Suite struct LostCallRecordTests {
  @Test func `lost calls are failures where the policy says so, and open the breaker once`() {
    var bench = Bench(BreakerPolicy(maxFailures: 3, lostCalls: .failure))
    bench.lose(2)
    #expect(bench.state == .closed)
    #expect(bench.record.consecutiveFailures == 2)
    #expect(bench.record.lastError == "its process ended while the call was under way")
    bench.lose(4)
    #expect(bench.transitions == ["closed>open"])
    #expect(bench.record.totals.lostCalls == 6 && bench.record.totals.failures == 6)
    #expect(bench.record.trips == 1)
  }

  @Test func `each process that has lost calls is one of the reporters`() {
    let policy = BreakerPolicy(
      maxFailures: 3, reporters: 2, maxConcurrent: 4, lostCalls: .failure)
    var bench = Bench(policy)
    bench.lose(9, of: .process(1))
    #expect(bench.state == .closed)
    bench.lose(1, of: .process(2))
    #expect(bench.state == .open)
    bench = Bench(policy)
    bench.lose(3, of: .process(1), .process(2))
    #expect(bench.state == .open)
    #expect(bench.record.lastError == "process 2 ended while the call was under way")
  }

  @Test func `without lost-calls=failure, lost calls appear only in the totals`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, maxConcurrent: 4))
    bench.lose(3)
    #expect(bench.state == .closed && bench.events.isEmpty)
    #expect(bench.record.totals.lostCalls == 3 && bench.record.totals.ignored == 3)
    #expect(bench.record.totals.failures == 0 && bench.record.lastError == nil)
  }

  @Test func `lost calls neither end a probe nor fail one`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, lostCalls: .failure))
    bench.becomeDue()
    let probe = bench.permit()
    bench.lose(2)
    #expect(bench.state == .halfOpen)
    #expect(bench.report(.success, for: probe) == .counted)
    #expect(bench.state == .closed)
  }
}
