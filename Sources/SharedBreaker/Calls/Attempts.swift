internal import BreakerCore

extension RetryPolicy {
  /// Counts the attempts of one call, and decides after each of them whether another one follows.
  ///
  /// `run` and ``BreakerJob`` retry by this rule. Use it yourself where neither fits, and your own
  /// loop makes the attempts:
  ///
  /// ```swift
  /// var attempts = RetryPolicy.Attempts(.fixed(attempts: 3, delay: .seconds(1)))
  /// while true {
  ///   let permit = try payments.acquire()
  ///   let outcome = send(order)
  ///   permit.report(outcome)
  ///   let wait = attempts.wait(after: outcome, ifPermitted: payments.snapshot().permits)
  ///   guard let wait else { break }
  ///   pause(for: wait)
  /// }
  /// ```
  ///
  /// It has no effects: it sleeps nowhere and asks no breaker.
  public struct Attempts: Sendable {
    /// The policy that says how often to try and how long to wait.
    public let policy: RetryPolicy

    /// How many attempts have ended.
    public private(set) var ended = 0

    /// Begins to count the attempts of a call.
    public init(_ policy: RetryPolicy) { self.policy = policy }

    /// Counts an attempt that has ended, and decides whether another one follows.
    ///
    /// - Parameters:
    ///   - outcome: What the attempt was reported as.
    ///   - error: The error that the attempt threw; nil if it returned a value.
    ///   - isPermitted: Whether the breaker would permit another attempt. It is asked last, and
    ///     only if nothing else speaks against one.
    ///   - random: A number from 0 up to 1, which decides the jitter of the wait.
    /// - Returns: How long to wait before the next attempt; nil if none follows.
    public mutating func wait(
      after outcome: CallOutcome, error: (any Error)? = nil,
      ifPermitted isPermitted: @autoclosure () -> Bool, random: Double = .random(in: 0..<1)
    ) -> Duration? {
      ended += 1
      guard ended < policy.attempts, isWorthwhile(error, outcome),
        let wait = policy.wait(named: error.flatMap { policy.retryAfter?($0) }, ended, random)
      else { return nil }
      return isPermitted() ? wait : nil
    }

    private func isWorthwhile(_ error: (any Error)?, _ outcome: CallOutcome) -> Bool {
      if case .failure(let failure) = outcome, failure.kind != .ordinary { return false }
      if let retryIf = policy.retryIf, let error { return retryIf(error) }
      return outcome.isFailure
    }
  }
}

extension RetryPolicy {
  /// The wait that an error has named, or else the one that is computed; nil if it is too long.
  fileprivate func wait(named: Duration?, _ failures: Int, _ random: Double) -> Duration? {
    guard let named else { return delay(after: failures, random: random) }
    // A resource that is asked earlier than it said would only refuse again.
    return named <= longest ? max(.zero, named) : nil
  }
}
