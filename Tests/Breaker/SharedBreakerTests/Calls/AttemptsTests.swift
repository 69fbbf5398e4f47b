import SharedBreaker
import Testing

/// The decision to try again, apart from any call.
@Suite struct AttemptsTests {
  private static let retry = RetryPolicy.fixed(
    attempts: 3, delay: .seconds(2),
    retryAfter: { ($0 as? Refused).map { .seconds($0.code) } })

  @Test func `another attempt follows a failure until the attempts are used up`() {
    var attempts = RetryPolicy.Attempts(Self.retry)
    #expect(attempts.wait(after: .failure(), ifPermitted: true) == .seconds(2))
    #expect(attempts.wait(after: .failure(), ifPermitted: true) == .seconds(2))
    #expect(attempts.wait(after: .failure(), ifPermitted: true) == nil)
    #expect(attempts.ended == 3)
  }

  @Test(arguments: [
    CallOutcome.success, .ignored, .permanentFailure(), .failure(opensFor: .seconds(1)),
  ])
  func `no attempt follows any outcome but an ordinary failure`(outcome: CallOutcome) {
    var attempts = RetryPolicy.Attempts(Self.retry)
    #expect(attempts.wait(after: outcome, ifPermitted: true) == nil)
  }

  @Test func `the breaker is asked only if nothing else speaks against another attempt`() {
    var asked = 0
    func isPermitted() -> Bool {
      asked += 1
      return false
    }
    var attempts = RetryPolicy.Attempts(.fixed(attempts: 2, delay: .zero))
    #expect(attempts.wait(after: .permanentFailure(), ifPermitted: isPermitted()) == nil)
    #expect(asked == 0)
    var others = RetryPolicy.Attempts(.fixed(attempts: 2, delay: .zero))
    #expect(others.wait(after: .failure(), ifPermitted: isPermitted()) == nil)
    #expect(asked == 1)
    #expect(others.wait(after: .failure(), ifPermitted: isPermitted()) == nil)
    #expect(asked == 1)
  }

  @Test func `an error decides for itself where the policy asks about errors`() {
    let picky = RetryPolicy.fixed(
      attempts: 9, delay: .zero, retryIf: { ($0 as? Refused)?.code == 503 })
    var attempts = RetryPolicy.Attempts(picky)
    let busy = Refused(code: 503)
    #expect(attempts.wait(after: .ignored, error: busy, ifPermitted: true) == .zero)
    #expect(attempts.wait(after: .failure(), error: Refused(code: 1), ifPermitted: true) == nil)
    #expect(attempts.wait(after: .permanentFailure(), error: busy, ifPermitted: true) == nil)
    #expect(attempts.wait(after: .failure(), ifPermitted: true) == .zero)
  }

  @Test func `the wait that an error names is kept, unless it is longer than the longest`() {
    for (named, wait) in [(7, .seconds(7)), (-1, .zero), (60, .seconds(60)), (61, nil)]
      as [(Int, Duration?)]
    {
      var attempts = RetryPolicy.Attempts(Self.retry)
      let error = Refused(code: named)
      #expect(attempts.wait(after: .failure(), error: error, ifPermitted: true) == wait)
    }
  }

  @Test func `the random number decides the jitter of the wait`() {
    let retry = RetryPolicy.fixed(attempts: 2, delay: .seconds(10), jitter: 0.5)
    for (random, seconds) in [(0.0, 5), (0.5, 10), (0.75, 12.5)] {
      var attempts = RetryPolicy.Attempts(retry)
      let wait = attempts.wait(after: .failure(), ifPermitted: true, random: random)
      #expect(wait == .seconds(seconds))
    }
  }
}
