internal import BreakerCore

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
  public var kind: PermitKind { ticket.grant.kind }

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

  /// Reports that the work says nothing about the resource.
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
  /// - Parameter outcome: What the attempt says about the resource.
  /// - Returns: Whether the report counts.
  @discardableResult
  public func report(_ outcome: CallOutcome) -> Bool { job.end(self, .outcome(outcome)) }
}
