import Testing

@testable import BreakerCore

@Suite struct SlowCallTests {
  let policy = BreakerPolicy(
    slowRate: 0.5, slowAfter: .seconds(2), last: 4, minCalls: 4)

  @Test(arguments: [(Duration.seconds(2) - .nanosecond, 0), (.seconds(2), 1), (.seconds(3), 1)])
  func `a call is slow once it has taken as long as slow-after`(elapsed: Duration, slow: Int) {
    var bench = Bench(policy)
    bench.call(.success, elapsed: elapsed)
    #expect(bench.record.totals.slow == Int64(slow))
    #expect(bench.record.window.counts(at: bench.now.boot).slow == Int64(slow))
  }

  @Test func `a call of unknown length, or without slow-after, is not slow`() {
    #expect(!policy.isSlow(nil))
    #expect(!BreakerPolicy().isSlow(.seconds(99)))
  }

  @Test func `slow calls open the breaker when their rate is reached, even if they succeeded`() {
    var bench = Bench(policy)
    bench.calls(3, .success)
    bench.call(.success, elapsed: .seconds(2))
    #expect(bench.state == .closed)
    bench.call(.success, elapsed: .seconds(2))
    #expect(bench.state == .open)
    #expect(bench.events.last?.reason == "2 of 4 calls took at least slow-after")
  }

  @Test func `a fast failure does not cause the slow calls to be judged`() {
    var bench = Bench(policy)
    bench.calls(2, .success, elapsed: .seconds(2))
    bench.call(.success)
    bench.call(.failure())
    #expect(bench.state == .closed)
    bench.call(.failure(), elapsed: .seconds(2))
    #expect(bench.state == .open)
  }

  @Test func `an ignored call never counts as slow`() {
    var bench = Bench(policy)
    bench.calls(9, .ignored, elapsed: .seconds(2))
    #expect(bench.state == .closed)
    #expect(bench.record.totals.slow == 0)
    #expect(bench.record.totals.ignored == 9)
  }

  @Test(arguments: [(BreakerPolicy.Rate?.some(0.5), BreakerState.open), (nil, .closed)])
  func `a slow probe fails only if slow-rate is set`(
    rate: BreakerPolicy.Rate?, expected: BreakerState
  ) {
    var bench = Bench(
      BreakerPolicy(slowRate: rate, slowAfter: .seconds(2), last: rate.map { _ in 4 }))
    bench.becomeDue()
    bench.call(.success, elapsed: .seconds(2))
    #expect(bench.state == expected)
    #expect(bench.record.totals.successes == 1)
    #expect(bench.record.totals.slow == 1)
  }

  @Test func `a probe that takes just less than slow-after succeeds`() {
    var bench = Bench(policy)
    bench.becomeDue()
    bench.call(.success, elapsed: .seconds(2) - .nanosecond)
    #expect(bench.state == .closed)
  }

  @Test func `a slow call is not judged without slow-rate`() {
    var bench = Bench(
      BreakerPolicy(failureRate: 0.5, slowAfter: .seconds(2), last: 2, reporters: 2))
    bench.calls(4, .success, elapsed: .seconds(2))
    #expect(bench.state == .closed)
    #expect(bench.record.reporters.isEmpty)
    #expect(bench.record.totals.slow == 4)
  }
}
