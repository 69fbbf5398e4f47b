internal import BreakerCore

/// How often a call is tried, and how long it waits between two attempts.
///
/// Every attempt asks the breaker for a permit of its own. What follows an attempt is decided in
/// this order: a rejection, a cancelled caller, a permanent failure and an open breaker end the
/// call; so does the last of the attempts, an error that `retryIf` does not want, and a wait that
/// the error names and that is longer than `longest`.
public struct RetryPolicy: Sendable {
  /// How often the work is run at most, the first time included; `Int.max` until the breaker opens.
  public let attempts: Int

  /// How long to wait between two attempts.
  public let backoff: Backoff

  /// The longest wait.
  public let longest: Duration

  /// By what share each wait is varied either way, so that callers do not come back together.
  public let jitter: Rate

  /// Which errors are worth another attempt; those that the breaker counts as failures if nil.
  public let retryIf: (@Sendable (any Error) -> Bool)?

  /// The wait that an error names, such as an HTTP `Retry-After`, which takes the place of another.
  public let retryAfter: (@Sendable (any Error) -> Duration?)?

  /// Describes when to try again.
  ///
  /// - Parameters:
  ///   - attempts: How often the work is run at most, the first time included; at least 1.
  ///   - backoff: How long to wait between two attempts.
  ///   - longest: The longest wait.
  ///   - jitter: By what share each wait is varied either way, up to all of it.
  ///   - retryIf: Which errors are worth another attempt.
  ///   - retryAfter: The wait that an error names.
  public init(
    attempts: Int, backoff: Backoff, longest: Duration = .seconds(60), jitter: Rate = 0.0,
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

/// The usual ones.
extension RetryPolicy {
  /// Tries once.
  public static let never = RetryPolicy(attempts: 1, backoff: .fixed(.zero))

  /// Waits the same time before every further attempt.
  public static func fixed(
    attempts: Int, delay: Duration, jitter: Rate = 0.0,
    retryIf: (@Sendable (any Error) -> Bool)? = nil,
    retryAfter: (@Sendable (any Error) -> Duration?)? = nil
  ) -> RetryPolicy {
    RetryPolicy(
      attempts: attempts, backoff: .fixed(delay), longest: max(delay, .seconds(60)),
      jitter: jitter, retryIf: retryIf, retryAfter: retryAfter)
  }

  /// Waits `delay`, and then `factor` times longer before each further attempt.
  public static func exponential(
    attempts: Int, delay: Duration, factor: Double = 2, longest: Duration = .seconds(60),
    jitter: Rate = 0.0, retryIf: (@Sendable (any Error) -> Bool)? = nil,
    retryAfter: (@Sendable (any Error) -> Duration?)? = nil
  ) -> RetryPolicy {
    RetryPolicy(
      attempts: attempts, backoff: .exponential(delay, factor: factor), longest: longest,
      jitter: jitter, retryIf: retryIf, retryAfter: retryAfter)
  }

  /// Waits `base` seconds, then its square, then its cube: 2, 4, 8 seconds.
  public static func powers(
    of base: Double, attempts: Int, longest: Duration = .seconds(60), jitter: Rate = 0.0,
    retryIf: (@Sendable (any Error) -> Bool)? = nil,
    retryAfter: (@Sendable (any Error) -> Duration?)? = nil
  ) -> RetryPolicy {
    RetryPolicy(
      attempts: attempts, backoff: .powers(of: base), longest: longest, jitter: jitter,
      retryIf: retryIf, retryAfter: retryAfter)
  }
}

/// How the wait between two attempts grows.
public enum Backoff: Sendable, Hashable {
  /// It does not.
  case fixed(Duration)

  /// Begins with a time and takes `factor` times as long before each further attempt.
  case exponential(Duration, factor: Double)

  /// Takes `base` to the power of the failed attempts, in seconds.
  case powers(of: Double)

  /// The wait after so many failed attempts, in seconds; it may be infinite.
  func seconds(after failures: Int) -> Double {
    switch self {
    case .fixed(let delay): delay / .seconds(1)
    case .exponential(let delay, let factor):
      delay / .seconds(1) * Self.power(factor, failures - 1)
    case .powers(let base): Self.power(base, failures)
    }
  }

  /// By squaring, for there may be no end to the attempts.
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

extension RetryPolicy {
  /// The wait after so many failed attempts; `random` is from 0 up to 1 and decides on the jitter.
  package func delay(after failures: Int, random: Double) -> Duration {
    let share = Double(jitter.partsPerMillion) / 1_000_000
    let grown = backoff.seconds(after: failures)
    // Not a number: nothing grew without end, so there is nothing to wait for.
    let seconds = min(grown.isNaN ? 0 : max(0, grown), longest / .seconds(1))
    let varied = seconds * (1 + share * (2 * random - 1))
    let nanoseconds = (max(0, varied) * 1_000_000_000).rounded()
    return min(.nanoseconds(Int64(min(nanoseconds, 9e18))), longest)
  }

  /// How long to wait before the next attempt, or nil if there is none.
  func wait(after failures: Int, error: (any Error)?, outcome: Outcome) -> Duration? {
    guard failures < attempts, isWorthwhile(error, outcome) else { return nil }
    guard let named = error.flatMap({ retryAfter?($0) }) else {
      return delay(after: failures, random: .random(in: 0..<1))
    }
    // Coming back earlier than told would only be told off again.
    return named <= longest ? max(.zero, named) : nil
  }

  private func isWorthwhile(_ error: (any Error)?, _ outcome: Outcome) -> Bool {
    if case .failure(let failure) = outcome, failure.kind != .ordinary { return false }
    if let retryIf, let error { return retryIf(error) }
    return outcome.isFailure
  }
}
