internal import BreakerCore
internal import BreakerStore

/// The course of one call: judges each attempt, and decides whether another one follows.
struct CallCourse {
  let breaker: Breaker
  let probeTimeout: Duration?
  private var attempts: RetryPolicy.Attempts

  init(_ breaker: Breaker, _ retry: RetryPolicy, probeTimeout: Duration?) {
    self.breaker = breaker
    self.probeTimeout = probeTimeout
    attempts = RetryPolicy.Attempts(retry)
  }

  /// Asks for the permit of the first attempt.
  func begin() throws(BreakerError) -> Ticket {
    try breaker.begin(probeTimeout: probeTimeout)
  }

  /// What an error says about the resource: a timeout is a failure, whatever the judge says.
  func outcome(of error: any Error, _ judge: (any Error) -> CallOutcome) -> CallOutcome {
    if let error = error as? CallTimedOut, error.name == breaker.name {
      return .failure(error: error.description)
    }
    return breaker.judged(error, by: judge)
  }

  /// Blocks the thread until the next attempt and returns its permit; nil if there is none.
  mutating func next(after error: (any Error)?, _ outcome: CallOutcome) -> Ticket? {
    guard let wait = wait(after: error, outcome) else { return nil }
    breaker.engine.options.timer.block(for: wait)
    return permitted()
  }

  /// Suspends the task until the next attempt and returns its permit; nil if there is none.
  mutating nonisolated(nonsending) func nextInTime(
    after error: (any Error)?, _ outcome: CallOutcome
  ) async throws -> Ticket? {
    guard let wait = wait(after: error, outcome) else { return nil }
    try await breaker.engine.options.timer.sleep(for: wait)
    return permitted()
  }

  private mutating func wait(after error: (any Error)?, _ outcome: CallOutcome) -> Duration? {
    guard !Task.isCancelled else { return nil }
    return attempts.wait(
      after: outcome, error: error, ifPermitted: breaker.snapshot().permits)
  }

  /// Returns a permit; nil if the breaker has opened meanwhile, so that no attempt follows.
  private func permitted() -> Ticket? {
    do throws(BreakerError) { return try begin() } catch { return nil }
  }
}
