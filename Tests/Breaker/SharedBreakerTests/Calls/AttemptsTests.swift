import SharedBreaker
import Testing

/// The decision to try again, apart from any call.
@Suite struct AttemptsTests {
  private static let retry = RetryPolicy.fixed(
    attempts: 3, delay: .seconds(2),
    retryAfter: { ($0 as? Refused).map { .seconds($0.code) } })

  @Test func `another attempt follows a failure until the attempts are used up`() {
    var attempts = RetryPolicy.Attempts(Self.retry)
    #expect(attempts.wait(after: .failure(), unless: nil) == .seconds(2))
    #expect(attempts.wait(after: .failure(), unless: nil) == .seconds(2))
    #expect(attempts.wait(after: .failure(), unless: nil) == nil)
    #expect(attempts.ended == 3)
  }

  @Test(arguments: [
    CallOutcome.success, .ignored, .permanentFailure(), .failure(opensFor: .seconds(1)),
  ])
  func `no attempt follows a success, or a failure that says how it goes on`(outcome: CallOutcome) {
    var attempts = RetryPolicy.Attempts(Self.retry)
    #expect(attempts.wait(after: outcome, unless: nil) == nil)
  }

  @Test func `the breaker is asked only if nothing else speaks against another attempt`() {
    var asked = 0
    func rejection() -> Rejection? {
      asked += 1
      return Rejection(state: .open, mode: .automatic, retryAfter: .seconds(1))
    }
    var attempts = RetryPolicy.Attempts(.fixed(attempts: 2, delay: .zero))
    #expect(attempts.wait(after: .permanentFailure(), unless: rejection()) == nil)
    #expect(asked == 0)
    var others = RetryPolicy.Attempts(.fixed(attempts: 2, delay: .zero))
    #expect(others.wait(after: .failure(), unless: rejection()) == nil)
    #expect(asked == 1)
    #expect(others.wait(after: .failure(), unless: rejection()) == nil)
    #expect(asked == 1)
  }

  @Test func `an error decides for itself where the policy asks about errors`() {
    let picky = RetryPolicy.fixed(
      attempts: 9, delay: .zero, retryIf: { ($0 as? Refused)?.code == 503 })
    var attempts = RetryPolicy.Attempts(picky)
    let busy = Refused(code: 503)
    #expect(attempts.wait(after: .ignored, error: busy, unless: nil) == .zero)
    #expect(attempts.wait(after: .failure(), error: Refused(code: 1), unless: nil) == nil)
    #expect(attempts.wait(after: .permanentFailure(), error: busy, unless: nil) == nil)
    #expect(attempts.wait(after: .failure(), unless: nil) == .zero)
  }

  @Test func `the wait that an error names is kept, unless it is longer than the longest`() {
    for (named, wait) in [(7, .seconds(7)), (-1, .zero), (60, .seconds(60)), (61, nil)]
      as [(Int, Duration?)]
    {
      var attempts = RetryPolicy.Attempts(Self.retry)
      let error = Refused(code: named)
      #expect(attempts.wait(after: .failure(), error: error, unless: nil) == wait)
    }
  }

  @Test func `the random number decides the jitter of the wait`() {
    let retry = RetryPolicy.fixed(attempts: 2, delay: .seconds(10), jitter: 0.5)
    for (random, seconds) in [(0.0, 5), (0.5, 10), (0.75, 12.5)] {
      var attempts = RetryPolicy.Attempts(retry)
      let wait = attempts.wait(after: .failure(), unless: nil, random: random)
      #expect(wait == .seconds(seconds))
    }
  }

  private static func held(for time: Duration?) -> Rejection {
    Rejection(state: .closed, mode: .automatic, retryAfter: time, cause: .held)
  }

  @Test func `a call that was told to wait is tried again, at the end of the hold if there is one`()
  {
    for (held, wait) in [(nil, 2), (1, 2), (12, 12), (60, 60), (61, nil)] as [(Int?, Int?)] {
      var attempts = RetryPolicy.Attempts(Self.retry)
      let rejection = held.map { Self.held(for: .seconds($0)) }
      #expect(
        attempts.wait(after: .hold(for: nil), unless: rejection) == wait.map { .seconds($0) },
        "\(held ?? 0)")
    }
  }

  @Test func `a failure waits for the end of a hold that another call has brought`() {
    var attempts = RetryPolicy.Attempts(Self.retry)
    #expect(attempts.wait(after: .failure(), unless: Self.held(for: .seconds(30))) == .seconds(30))
    // Others go first, or the hold was prolonged.
    #expect(attempts.wait(after: Self.held(for: .seconds(20))) == .seconds(20))
    #expect(attempts.wait(after: Self.held(for: .seconds(11))) == nil)
    #expect(attempts.wait(after: Self.held(for: .seconds(10))) == .seconds(10))
    #expect(attempts.wait(after: Self.held(for: .milliseconds(1))) == nil)
    #expect(attempts.ended == 1)
  }

  @Test func `no rejection but that of a hold is waited for`() {
    var attempts = RetryPolicy.Attempts(Self.retry)
    #expect(attempts.wait(after: Self.held(for: .seconds(1))) == nil)
    #expect(attempts.wait(after: .failure(), unless: nil) == .seconds(2))
    for cause in RejectionCause.allCases where cause != .held {
      let rejection = Rejection(
        state: .open, mode: .automatic, retryAfter: .seconds(1), cause: cause)
      #expect(attempts.wait(after: rejection) == nil)
    }
    #expect(attempts.wait(after: Self.held(for: nil)) == nil)
    #expect(attempts.wait(after: Self.held(for: .zero)) == .milliseconds(1))
  }
}
