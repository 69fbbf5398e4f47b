internal import BreakerCore
internal import BreakerStore

/// The course of one call: what the error of an attempt meant, and whether there is another one.
struct CallCourse {
  let breaker: Breaker
  let retry: RetryPolicy
  let probeTimeout: Duration?
  private var attempts = 0

  init(_ breaker: Breaker, _ retry: RetryPolicy, probeTimeout: Duration?) {
    self.breaker = breaker
    self.retry = retry
    self.probeTimeout = probeTimeout
  }

  /// Asks for the permit of an attempt.
  func begin() throws(BreakerError) -> Ticket {
    try breaker.begin(probeTimeout: probeTimeout)
  }

  func outcome(of error: any Error, _ judge: (any Error) -> Outcome) -> Outcome {
    if let error = error as? CallTimedOut, error.name == breaker.name {
      return .failure(error: error.description)
    }
    // Whatever a cancelled caller's work makes of it: it says nothing about the resource.
    return Task.isCancelled ? .ignored : judge(error)
  }

  /// Holds the thread until the next attempt, and answers its permit; nil if there is none.
  mutating func next(after error: (any Error)?, _ outcome: Outcome) -> Ticket? {
    guard let wait = wait(after: error, outcome) else { return nil }
    breaker.engine.options.timer.block(for: wait)
    return permitted()
  }

  /// Waits until the next attempt, and answers its permit; nil if there is none.
  mutating nonisolated(nonsending) func nextInTime(
    after error: (any Error)?, _ outcome: Outcome
  ) async throws -> Ticket? {
    guard let wait = wait(after: error, outcome) else { return nil }
    try await breaker.engine.options.timer.sleep(for: wait)
    return permitted()
  }

  private mutating func wait(after error: (any Error)?, _ outcome: Outcome) -> Duration? {
    attempts += 1
    guard !Task.isCancelled,
      let wait = retry.wait(after: attempts, error: error, outcome: outcome)
    else { return nil }
    return breaker.snapshot().permits ? wait : nil
  }

  /// A permit, unless the breaker has opened meanwhile: then the last attempt was the last one.
  private func permitted() -> Ticket? {
    do throws(BreakerError) { return try begin() } catch { return nil }
  }
}
