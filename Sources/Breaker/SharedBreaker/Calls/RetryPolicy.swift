internal import BreakerCore

/// How often to try a call, and how long to wait between attempts.
///
/// ```swift
/// let retry = RetryPolicy.exponential(
///   attempts: 3, delay: .milliseconds(200), jitter: 0.2,
///   retryAfter: { ($0 as? TooManyRequests)?.retryAfter })
/// try payments.run(retry: retry) { try client.charge(order) }
/// ```
///
/// Every attempt asks the breaker for its own permit. There is no further attempt
///
/// - after the last of ``attempts``,
/// - once the breaker rejects calls, unless it holds them for no longer than the longest wait,
/// - for a caller that has been cancelled,
/// - after a failure that is permanent or names its own open time,
/// - after an error that `retryIf` does not accept,
/// - after an error that names a longer wait than the longest one,
/// - once `retry-budget` of the breaker is used up, which is asked after the wait.
///
/// A call that was told to wait, such as by HTTP 429, is worth another attempt once the resource may be
/// asked again. While other callers go first then, it waits on, for no longer than the longest wait in all.
///
/// ``RetryPolicy/Attempts-swift.struct`` decides that, also for a loop of your own.
public struct RetryPolicy: Sendable {
  /// How many times the work runs at most, including the first.
  ///
  /// With `Int.max`, attempts go on until one succeeds or the breaker opens.
  public let attempts: Int

  /// How the wait between two attempts grows.
  package let backoff: RetryPolicy.Backoff

  /// The longest wait between two attempts.
  package let longest: Duration

  /// The share by which each wait varies either way, so that callers do not come back together.
  package let jitter: BreakerPolicy.Rate

  /// Whether an error is worth another attempt; if nil, the errors that count as failures are.
  package let retryIf: (@Sendable (any Error) -> Bool)?

  /// The wait that an error names, such as an HTTP `Retry-After`; it replaces the computed wait.
  package let retryAfter: (@Sendable (any Error) -> Duration?)?

  package init(
    attempts: Int, backoff: RetryPolicy.Backoff, longest: Duration = .seconds(60),
    jitter: BreakerPolicy.Rate = 0.0,
    retryIf: (@Sendable (any Error) -> Bool)? = nil,
    retryAfter: (@Sendable (any Error) -> Duration?)? = nil
  ) {
    precondition(attempts >= 1, "a call is tried at least once: give it 1 attempt or more")
    precondition(longest >= .zero, "the longest wait between attempts cannot be negative")
    precondition(
      (0...1_000_000).contains(jitter.partsPerMillion),
      "the jitter of a wait between attempts is from 0 to 1")
    self.attempts = attempts
    self.backoff = backoff
    self.longest = longest
    self.jitter = jitter
    self.retryIf = retryIf
    self.retryAfter = retryAfter
  }
}

/// Common policies.
extension RetryPolicy {
  /// Tries once and never again.
  public static let never = RetryPolicy(attempts: 1, backoff: .fixed(.zero))

  /// Waits equally long before every further attempt; the parameters are those of an exponential one.
  public static func fixed(
    attempts: Int, delay: Duration, jitter: BreakerPolicy.Rate = 0.0,
    retryIf: (@Sendable (any Error) -> Bool)? = nil,
    retryAfter: (@Sendable (any Error) -> Duration?)? = nil
  ) -> RetryPolicy {
    RetryPolicy(
      attempts: attempts, backoff: .fixed(delay),
      longest: max(delay * (1 + jitter.share), .seconds(60)),
      jitter: jitter, retryIf: retryIf, retryAfter: retryAfter)
  }

  /// Waits `delay` before the second attempt, and `factor` times as long before each further one.
  ///
  /// - Parameters:
  ///   - attempts: How many times the work runs at most, including the first; at least 1.
  ///   - delay: The first wait.
  ///   - factor: How much longer each further wait is.
  ///   - longest: The longest wait; not negative.
  ///   - jitter: The share by which each wait varies either way, from 0 to 1, so that callers do not come back
  ///     together.
  ///   - retryIf: Whether an error is worth another attempt; if nil, the errors that count as failures are.
  ///   - retryAfter: The wait that an error names, such as an HTTP `Retry-After`, or nil if it names none. It replaces
  ///     the computed wait.
  /// - Returns: The policy.
  public static func exponential(
    attempts: Int, delay: Duration, factor: Double = 2, longest: Duration = .seconds(60),
    jitter: BreakerPolicy.Rate = 0.0, retryIf: (@Sendable (any Error) -> Bool)? = nil,
    retryAfter: (@Sendable (any Error) -> Duration?)? = nil
  ) -> RetryPolicy {
    RetryPolicy(
      attempts: attempts, backoff: .exponential(delay, factor: factor), longest: longest,
      jitter: jitter, retryIf: retryIf, retryAfter: retryAfter)
  }

  /// Waits `base` seconds, then `base` squared, then cubed: for a base of 2, 2, 4 and 8 seconds.
  ///
  /// The other parameters are those of an exponential policy.
  public static func powers(
    of base: Double, attempts: Int, longest: Duration = .seconds(60),
    jitter: BreakerPolicy.Rate = 0.0,
    retryIf: (@Sendable (any Error) -> Bool)? = nil,
    retryAfter: (@Sendable (any Error) -> Duration?)? = nil
  ) -> RetryPolicy {
    RetryPolicy(
      attempts: attempts, backoff: .powers(of: base), longest: longest, jitter: jitter,
      retryIf: retryIf, retryAfter: retryAfter)
  }
}

extension RetryPolicy {
  /// How the wait between two attempts grows.
  package enum Backoff: Sendable, Hashable {
    /// The wait stays the same.
    case fixed(Duration)

    /// The wait begins with a duration and is multiplied by `factor` before each further attempt.
    case exponential(Duration, factor: Double)

    /// The wait in seconds is the base to the power of the number of failed attempts.
    case powers(of: Double)

    /// The wait in seconds after a number of failed attempts; it may be infinite.
    func seconds(after failures: Int) -> Double {
      switch self {
      case .fixed(let delay): delay / .seconds(1)
      case .exponential(let delay, let factor):
        delay / .seconds(1) * Self.power(factor, failures - 1)
      case .powers(let base): Self.power(base, failures)
      }
    }

    /// Computes a power by squaring, because the number of attempts has no limit.
    private static func power(_ base: Double, _ exponent: Int) -> Double {
      var result = 1.0
      var square = base
      var left = max(0, exponent)
      while left > 0 {
        if left & 1 == 1 { result *= square }
        square *= square
        left >>= 1
      }
      return result
    }
  }
}

extension BreakerPolicy.Rate {
  /// The rate as a number, of which 1 is all.
  fileprivate var share: Double { Double(partsPerMillion) / 1_000_000 }
}

extension RetryPolicy {
  /// The wait after a number of failed attempts; `random`, from 0 up to 1, decides the jitter.
  package func delay(after failures: Int, random: Double) -> Duration {
    let grown = backoff.seconds(after: failures)
    // Waits that were only cut at the longest one would be equal, and callers would come back together.
    let most = longest / .seconds(1) / (1 + jitter.share)
    // Zero times infinity is not a number: a delay of zero stays zero.
    let seconds = min(grown.isNaN ? 0 : max(0, grown), most)
    let varied = seconds * (1 + jitter.share * (2 * random - 1))
    let nanoseconds = (max(0, varied) * 1_000_000_000).rounded()
    return min(.nanoseconds(Int64(min(nanoseconds, 9e18))), longest)
  }
}

extension RetryPolicy {
  /// Counts the attempts of one call, and decides after each of them whether another one follows.
  ///
  /// `run` and ``BreakerJob`` retry by this rule. Use it yourself where neither fits and your own
  /// loop makes the attempts:
  ///
  /// ```swift
  /// var attempts = RetryPolicy.Attempts(.fixed(attempts: 3, delay: .seconds(1)))
  /// while true {
  ///   let permit = try payments.acquire(isRetry: attempts.ended > 0)
  ///   let outcome = send(order)
  ///   permit.report(outcome)
  ///   let wait = attempts.wait(after: outcome, unless: payments.snapshot().rejection)
  ///   guard let wait else { break }
  ///   pause(for: wait)
  /// }
  /// ```
  ///
  /// It has no effects: it sleeps nowhere and asks no breaker.
  public struct Attempts: Sendable {
    /// The policy that says how often to try and how long to wait.
    package let policy: RetryPolicy

    /// How many attempts have ended.
    public private(set) var ended = 0

    /// How much longer the next attempt may be put off, because the breaker holds calls.
    private var patience = Duration.zero

    /// Begins to count the attempts of a call.
    public init(_ policy: RetryPolicy) { self.policy = policy }

    /// Counts an attempt that has ended, and decides whether another one follows.
    ///
    /// - Parameters:
    ///   - outcome: The outcome that was reported for the attempt.
    ///   - error: The error that the attempt threw; nil if it returned a value.
    ///   - rejection: The rejection that another attempt would get now; nil if it would be permitted. It is asked
    ///     last, and only if nothing else speaks against an attempt. A hold only makes the wait longer.
    ///   - random: A number from 0 up to 1, which decides the jitter of the wait.
    /// - Returns: How long to wait before the next attempt; nil if none follows.
    public mutating func wait(
      after outcome: CallOutcome, error: (any Error)? = nil,
      unless rejection: @autoclosure () -> Rejection?, random: Double = .random(in: 0..<1)
    ) -> Duration? {
      ended += 1
      patience = .zero
      guard ended < policy.attempts, isWorthwhile(error, outcome),
        let wait = policy.wait(named: error.flatMap { policy.retryAfter?($0) }, ended, random)
      else { return nil }
      patience = policy.longest
      guard let rejection = rejection() else { return putOff(by: wait) }
      return rejection.endOfHold.flatMap { putOff(by: max(wait, $0)) }
    }

    /// Decides whether to ask again for an attempt that was rejected after its wait, which only a hold is worth.
    ///
    /// - Parameter rejection: The rejection of an attempt that follows another one.
    /// - Returns: How long to wait before the breaker is asked again; nil if it is not.
    public mutating func wait(after rejection: Rejection) -> Duration? {
      rejection.endOfHold.flatMap { putOff(by: max($0, Self.shortest)) }
    }

    /// The shortest wait for a call that goes first, so that the waits have an end.
    private static let shortest = Duration.milliseconds(1)

    private mutating func putOff(by wait: Duration) -> Duration? {
      guard wait <= patience else { return nil }
      patience -= wait
      return wait
    }

    private func isWorthwhile(_ error: (any Error)?, _ outcome: CallOutcome) -> Bool {
      if case .failure(let failure) = outcome, failure.kind != .ordinary { return false }
      if let retryIf = policy.retryIf, let error { return retryIf(error) }
      if case .hold = outcome { return true }
      return outcome.isFailure
    }
  }
}

extension Rejection {
  /// When asking again makes sense, if a hold is all that rejects.
  fileprivate var endOfHold: Duration? { cause == .held ? retryAfter : nil }
}

extension RetryPolicy {
  /// The wait that an error has named, or else the one that is computed; nil if it is too long.
  fileprivate func wait(named: Duration?, _ failures: Int, _ random: Double) -> Duration? {
    guard let named else { return delay(after: failures, random: random) }
    // A resource that is asked earlier than it said would only refuse again.
    return named <= longest ? max(.zero, named) : nil
  }
}
