internal import BreakerCore
internal import BreakerStore

/// Work behind a breaker for code that is not asynchronous: it reports when it is over.
///
/// ```swift
/// let retry = RetryPolicy.fixed(attempts: 3, delay: .seconds(2))
/// let job = BreakerJob(payments, timeout: .seconds(10), retry: retry) { attempt in
///   client.charge(order) { error in
///     if let error { attempt.failure(error) } else { attempt.success() }
///   }
/// }
/// job.successful = { _ in print("charged") }
/// job.tripped = { job, error in print("\(job.breaker.name) is down") }
/// job.start()
/// ```
///
/// A job may be used from any thread, and needs no run loop and none of Swift's own threads. The work
/// and the callbacks are called in the thread that starts the job or reports; after a timeout, or a
/// wait between two attempts, they are called in a thread of the library's. They may block any of
/// these: a thread of the library's that is held up is joined by another one after 10 ms. No lock is
/// held meanwhile. A job that is under way keeps itself alive until it is over; one that was under way
/// in the parent of a fork is the parent's alone, and has not been started in the child.
public final class BreakerJob: Sendable {
  /// The breaker that the work runs behind.
  public let breaker: Breaker

  /// How long an attempt may take; one that has not reported by then has failed.
  ///
  /// The work of an attempt whose time is up before the work could be called is not called any more.
  public let timeout: Duration

  /// How often the work is tried, and how long the job waits between two attempts.
  public let retry: RetryPolicy

  /// How long an attempt may take that is a probe, where that is longer than `probe-timeout`.
  public let probeTimeout: Duration?

  let outcome: @Sendable (any Error) -> Outcome
  let work: @Sendable (JobAttempt) -> Void
  let lock = Lock()
  nonisolated(unsafe) var course = Course()
  private nonisolated(unsafe) var callbacks = Callbacks()

  /// Describes work, and does not start it yet.
  ///
  /// - Parameters:
  ///   - breaker: The breaker that the work runs behind.
  ///   - timeout: How long an attempt may take.
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - probeTimeout: How long an attempt may take that is a probe, where that is longer than the
  ///     policy's `probe-timeout`.
  ///   - outcome: Says what a reported error means; by default every error but a cancellation is a
  ///     failure.
  ///   - work: Is called for each attempt, and reports to it how it ended, now or later, from any
  ///     thread. The first attempt holds up whoever starts the job for as long as it blocks; a timeout
  ///     ends it for the breaker all the same.
  public init(
    _ breaker: Breaker, timeout: Duration = .seconds(10), retry: RetryPolicy = .never,
    probeTimeout: Duration? = nil,
    outcome: @escaping @Sendable (any Error) -> Outcome = Breaker.usualOutcome,
    work: @escaping @Sendable (JobAttempt) -> Void
  ) {
    self.breaker = breaker
    self.timeout = timeout
    self.retry = retry
    self.probeTimeout = probeTimeout
    self.outcome = outcome
    self.work = work
  }
}

/// What a job calls back.
extension BreakerJob {
  private struct Callbacks {
    var successful: (@Sendable (BreakerJob) -> Void)?
    var tripped: (@Sendable (BreakerJob, (any Error)?) -> Void)?
    var failed: (@Sendable (BreakerJob, (any Error)?) -> Void)?
    var timedOut: (@Sendable (BreakerJob) -> Void)?
    var log: (@Sendable (String) -> Void)?
  }

  /// Is called when an attempt has succeeded; the breaker's count is already clean.
  public var successful: (@Sendable (BreakerJob) -> Void)? {
    get { lock.withLock { unsafe callbacks.successful } }
    set { lock.withLock { unsafe callbacks.successful = newValue } }
  }

  /// Is called when the job is over because the breaker rejects it, or has opened at its failure.
  ///
  /// The error is the last one that was reported to this job, a timeout included. A job that is
  /// rejected and knows of none is given the rejection, which says when to come back. A `start` in
  /// here that is rejected again calls nothing.
  public var tripped: (@Sendable (BreakerJob, (any Error)?) -> Void)? {
    get { lock.withLock { unsafe callbacks.tripped } }
    set { lock.withLock { unsafe callbacks.tripped = newValue } }
  }

  /// Is called when the job is over without success though the breaker lets calls through.
  ///
  /// Its attempts are used up, or its error is not worth another one.
  public var failed: (@Sendable (BreakerJob, (any Error)?) -> Void)? {
    get { lock.withLock { unsafe callbacks.failed } }
    set { lock.withLock { unsafe callbacks.failed = newValue } }
  }

  /// Is called when an attempt has run out of time, and may cancel what is left of it.
  ///
  /// What such an attempt reports later is ignored.
  public var timedOut: (@Sendable (BreakerJob) -> Void)? {
    get { lock.withLock { unsafe callbacks.timedOut } }
    set { lock.withLock { unsafe callbacks.timedOut = newValue } }
  }

  /// Is given a line for people about everything that happens.
  public var log: (@Sendable (String) -> Void)? {
    get { lock.withLock { unsafe callbacks.log } }
    set { lock.withLock { unsafe callbacks.log = newValue } }
  }

  func note(_ line: @autoclosure () -> String) { log?("\(breaker.name): \(line())") }
}

/// Looking at a job, and steering it.
extension BreakerJob {
  /// The state of the breaker.
  public var state: BreakerState { breaker.state }

  /// The failures with no success between them, of all who use the breaker.
  public var failureCount: Int { Int(clamping: breaker.snapshot().consecutiveFailures) }

  /// Whether the job has been started and is not over yet.
  public var isUnderWay: Bool {
    lock.withLock { if case .idle = unsafe course.phase { false } else { true } }
  }

  /// Starts the job, if the breaker lets it through; one that is under way goes on as it is.
  ///
  /// - Returns: Whether the work was started.
  @discardableResult
  public func start() -> Bool {
    let run = lock.withLock { unsafe course.begin() }
    guard let run else {
      note("the work is already under way")
      return false
    }
    return attempt(in: run)
  }

  /// Ends the job without calling anything back; how the work ends is of no account any more.
  public func cancel() {
    let (ticket, takeBack) = lock.withLock { unsafe course.abandon() }
    takeBack?()
    if let ticket { breaker.end(ticket, .ignored) }
  }

  /// Ends the job, and closes the breaker with clean counters for all who use it; calls nothing back.
  ///
  /// - Throws: `BreakerError.store` if the store cannot be used; the job has ended all the same.
  public func reset() throws(BreakerError) {
    cancel()
    lock.withLock { unsafe course.lastError = nil }
    try breaker.reset()
    note("the breaker has been reset")
  }
}
