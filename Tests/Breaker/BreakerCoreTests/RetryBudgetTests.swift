import Testing

@testable import BreakerCore

/// How many calls a budget lets be sent again.
@Suite struct RetryBudgetTests {
  private func recent(firsts: Int64, retries: Int64, inSecond: Int64) -> RecentAttempts {
    var recent = RecentAttempts()
    (recent.firsts, recent.retries, recent.retriesInSecond) = (firsts, retries, inSecond)
    return recent
  }

  @Test(arguments: [
    (0.2, 200), (0.0015, 1), (0.001, 1), (0.000_999, 0), (1.0, 1_000), (0.333_333, 333),
  ])
  func `retries are at most the share of the first attempts`(
    share: Double, most: Int64
  ) {
    let budget = RetryBudget(BreakerPolicy.Rate(share))
    for retries in 0...most + 1 {
      let calls = recent(firsts: 1_000, retries: retries, inSecond: 10)
      #expect(budget.permitsRetry(after: calls) == (retries < most), "\(retries)")
    }
  }

  @Test func `ten retries a second are permitted whatever the share is`() {
    let budget = RetryBudget(0.01)
    for inSecond in Int64(0)...12 {
      let calls = recent(firsts: 1, retries: 500, inSecond: inSecond)
      #expect(budget.permitsRetry(after: calls) == (inSecond < 10))
    }
  }

  @Test func `times of successes are marked for a window and for a budget`() {
    #expect(BreakerPolicy(retryBudget: 0.2).marksSuccesses)
    #expect(BreakerPolicy(failureRate: 0.5, window: .seconds(60)).marksSuccesses)
    #expect(!BreakerPolicy(failureRate: 0.5, last: 20).marksSuccesses)
  }
}
