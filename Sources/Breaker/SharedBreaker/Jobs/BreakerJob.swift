internal import BreakerCore
internal import BreakerStore

/// Work behind a breaker that reports its outcome through a callback instead of `async`.
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
/// You may use a job from any thread. It needs no run loop and none of Swift's own threads, so it
/// keeps its deadlines even if all of those are blocked. A running job keeps itself alive.
///
/// The work and the callbacks run in the thread that starts the job or reports. After a timeout, or
/// after a wait between two attempts, they run in a thread of the library. They may block either
/// kind of thread: if a thread of the library is blocked, another one takes over after 10 ms. No
/// lock is held while they run.
///
/// A job that is running when the process forks belongs to the parent alone. In the child it has
/// not been started.
public final class BreakerJob: Sendable {
  /// The breaker that the work runs behind.
  public let breaker: Breaker

  /// How long an attempt may take; if it has not reported by then, it has failed.
  ///
  /// If the time is up before the work of an attempt could be called, it is not called.
  public let timeout: Duration

  /// How often to try the work, and how long to wait between two attempts.
  public let retry: RetryPolicy

  /// How long an attempt may take if it is a probe.
  ///
  /// It applies only if it is longer than the timeout of the job and `probe-timeout`.
  public let probeTimeout: Duration?

  let outcome: ErrorJudge
  let work: @Sendable (JobAttempt) -> Void
  let course = Guarded(Course())
  private let callbacks = Guarded(Callbacks())

  /// Describes work without starting it.
  ///
  /// - Parameters:
  ///   - breaker: The breaker that the work runs behind.
  ///   - timeout: How long an attempt may take.
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - probeTimeout: How long an attempt may take as a probe; it counts where it is longer than
  ///     `timeout` and the policy's `probe-timeout`.
  ///   - outcome: Judges a reported error; by default every error but a cancellation is a failure.
  ///   - work: Called for each attempt. It reports to the attempt how it ended, now or later, from
  ///     any thread. The first attempt runs inside `start`, which returns when the work does;
  ///     an attempt that blocks for too long times out all the same.
  public init(
    _ breaker: Breaker, timeout: Duration = .seconds(10), retry: RetryPolicy = .never,
    probeTimeout: Duration? = nil,
    outcome: @escaping ErrorJudge = Breaker.usualOutcome,
    work: @escaping @Sendable (JobAttempt) -> Void
  ) {
    self.breaker = breaker
    self.timeout = timeout
    self.retry = retry
    self.probeTimeout = probeTimeout
    self.outcome = outcome
    self.work = work
  }

  /// Creates the types that Swift would otherwise create for the first job of the process.
  static func warmUp() { _ = (Guarded(Course()), Guarded(Callbacks())) }
}

/// The callbacks of a job.
extension BreakerJob {
  private struct Callbacks {
    var successful: (@Sendable (BreakerJob) -> Void)?
    var tripped: (@Sendable (BreakerJob, (any Error)?) -> Void)?
    var failed: (@Sendable (BreakerJob, (any Error)?) -> Void)?
    var timedOut: (@Sendable (BreakerJob) -> Void)?
    var log: (@Sendable (String) -> Void)?
  }

  /// Called when an attempt has succeeded; the breaker has counted the success already.
  ///
  /// A success that is reported when the attempt has run out of time is a timeout, even if the timer
  /// is late. If the breaker was deleted meanwhile, nothing counts the success, and this is called.
  public var successful: (@Sendable (BreakerJob) -> Void)? {
    get { callbacks.withLock { $0.successful } }
    set { callbacks.withLock { $0.successful = newValue } }
  }

  /// Called when the job ends because the breaker rejects it or has opened at its failure.
  ///
  /// The error is the last one that was reported to this job, or its last timeout. If there was
  /// none and the job was rejected, the error is the rejection, which says when to try again if
  /// that is known. If you call `start` in this callback and it is rejected again, the callback is
  /// not called once more.
  public var tripped: (@Sendable (BreakerJob, (any Error)?) -> Void)? {
    get { callbacks.withLock { $0.tripped } }
    set { callbacks.withLock { $0.tripped = newValue } }
  }

  /// Called when the job ends without success although the breaker has not rejected it.
  ///
  /// Either its attempts are used up, or its error is not worth another attempt, or it reported
  /// that the attempt is to be ignored. The error is nil if the last attempt reported none, as an
  /// attempt that calls ``JobAttempt/report(_:)`` does. If the store cannot be used and
  /// ``StoreFailureAction/throw`` is set, the error is that of the store.
  public var failed: (@Sendable (BreakerJob, (any Error)?) -> Void)? {
    get { callbacks.withLock { $0.failed } }
    set { callbacks.withLock { $0.failed = newValue } }
  }

  /// Called when an attempt has timed out; cancel its work here.
  ///
  /// Later reports of the attempt are ignored.
  public var timedOut: (@Sendable (BreakerJob) -> Void)? {
    get { callbacks.withLock { $0.timedOut } }
    set { callbacks.withLock { $0.timedOut = newValue } }
  }

  /// Called with a line of text for people about everything that happens.
  public var log: (@Sendable (String) -> Void)? {
    get { callbacks.withLock { $0.log } }
    set { callbacks.withLock { $0.log = newValue } }
  }

  func note(_ line: @autoclosure () -> String) { log?("\(breaker.name): \(line())") }
}

/// Starting and stopping a job.
extension BreakerJob {
  /// The state of the breaker.
  public var state: BreakerState { breaker.state }

  /// The number of failures since the last success, of all processes that use the breaker.
  public var failureCount: Int { Int(clamping: breaker.snapshot().consecutiveFailures) }

  /// Whether the job has been started and has not ended yet.
  public var isUnderWay: Bool {
    course.withLock { if case .idle = $0.phase { false } else { true } }
  }

  /// Starts the job if the breaker permits it; a job that is under way is left as it is.
  ///
  /// If the breaker rejects the job, ``tripped`` is called before this returns.
  ///
  /// - Returns: Whether the work was started.
  @discardableResult
  public func start() -> Bool {
    let run = course.withLock { $0.begin() }
    guard let run else {
      note("the work is already under way")
      return false
    }
    return attempt(in: run, after: RetryPolicy.Attempts(retry))
  }

  /// Starts the job if the breaker permits it, and suspends the task until its turn under `max-concurrent`.
  ///
  /// In asynchronous code, this is the one that Swift chooses. A job that is under way is left as it is.
  /// If the breaker rejects the job, ``tripped`` is called before this returns. A cancellation of the task
  /// ends the wait at once, and the job with it: no callback is called but ``log``.
  ///
  /// - Returns: Whether the work was started.
  @discardableResult
  public nonisolated(nonsending) func start() async -> Bool {
    let run = course.withLock { $0.begin() }
    guard let run else {
      note("the work is already under way")
      return false
    }
    return await attemptInTurn(in: run, after: RetryPolicy.Attempts(retry))
  }

  /// Ends the job without calling any callback; its outcome is ignored.
  ///
  /// The work itself is not stopped. Its later reports are ignored. A `start` that waits for its
  /// turn gives it back when it comes, and starts nothing.
  public func cancel() {
    let (ticket, takeBack) = course.withLock { $0.abandon() }
    takeBack?()
    if let ticket { breaker.end(ticket, .ignored) }
  }

  /// Ends the job, and closes the breaker and clears its counters for all processes.
  ///
  /// No callback is called but ``log``.
  ///
  /// - Throws: `BreakerError.store` if the store cannot be used; the job has ended all the same.
  public func reset() throws(BreakerError) {
    cancel()
    course.withLock { $0.lastError = nil }
    try breaker.reset()
    note("the breaker has been reset")
  }
}

/// One attempt of a job, to which the work reports how it ended.
///
/// You may report from any thread. The first report counts, and a timeout is a report too; later
/// ones are ignored. A ``BreakerJob`` passes each attempt to its work.
public final class JobAttempt: Sendable {
  /// The job that the attempt belongs to.
  public let job: BreakerJob

  let ticket: Ticket
  let run: UInt64

  /// The attempts before it.
  let attempts: RetryPolicy.Attempts

  init(
    _ job: BreakerJob, _ ticket: Ticket, in run: UInt64, after attempts: RetryPolicy.Attempts
  ) {
    self.job = job
    self.ticket = ticket
    self.run = run
    self.attempts = attempts
  }

  /// Whether the attempt is an ordinary call or a probe.
  public var kind: PermitKind { ticket.kind }

  /// Which attempt of the job it is; the first one is 1.
  public var number: Int { attempts.ended + 1 }

  /// Gives an attempt that is still making progress more time.
  ///
  /// The timeout of the attempt counts from now on, and a probe keeps its lease for as long. Call it
  /// whenever a part of long work is done, so that only work that hangs times out:
  ///
  /// ```swift
  /// let job = BreakerJob(archive, timeout: .seconds(10)) { attempt in
  ///   upload.onPart = { _ in try? attempt.renew() }
  ///   upload.onEnd = { error in if let error { attempt.failure(error) } else { attempt.success() } }
  ///   upload.start()
  /// }
  /// ```
  ///
  /// Renewing never shortens the time.
  ///
  /// - Parameter time: How long the attempt may take from now on; the job's `timeout` if nil.
  /// - Returns: Whether the attempt is still under way; if not, its report will be ignored.
  /// - Throws: `BreakerError.store` if the lease of a probe cannot be renewed because the store cannot
  ///   be used. The time is unchanged: try again.
  @discardableResult
  public func renew(for time: Duration? = nil) throws(BreakerError) -> Bool {
    try job.renew(self, for: time ?? job.timeout)
  }

  /// Reports that the work has succeeded.
  ///
  /// - Returns: Whether the report counts.
  @discardableResult
  public func success() -> Bool { job.end(self, .outcome(.success)) }

  /// Reports that the work has failed, with its error if there is one.
  ///
  /// An error is judged by the job's `outcome`; without an error it is a failure.
  ///
  /// - Returns: Whether the report counts.
  @discardableResult
  public func failure(_ error: (any Error)? = nil) -> Bool { job.end(self, .failure(error)) }

  /// Reports that the work tells you nothing about the resource.
  ///
  /// - Returns: Whether the report counts.
  @discardableResult
  public func ignore() -> Bool { job.end(self, .outcome(.ignored)) }

  /// Reports what the attempt says about the resource.
  ///
  /// Use it if the work ends with a value that has to be judged:
  ///
  /// ```swift
  /// attempt.report(.http(status: response.status, retryAfter: response.retryAfter))
  /// ```
  ///
  /// A failure is retried and ends in the job's callbacks as one with an error does. The callbacks
  /// get nil for the error, or the last error that the job has reported.
  ///
  /// - Parameter outcome: The outcome of the attempt.
  /// - Returns: Whether the report counts.
  @discardableResult
  public func report(_ outcome: CallOutcome) -> Bool { job.end(self, .outcome(outcome)) }
}
