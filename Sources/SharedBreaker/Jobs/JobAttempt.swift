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

  init(_ job: BreakerJob, _ ticket: Ticket, in run: UInt64) {
    self.job = job
    self.ticket = ticket
    self.run = run
  }

  /// Whether the attempt is an ordinary call or a probe.
  public var kind: PermitKind { ticket.grant.kind }

  /// Reports that the work has succeeded.
  ///
  /// - Returns: Whether the report counts.
  @discardableResult
  public func success() -> Bool { job.end(self, .success) }

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
  public func ignore() -> Bool { job.end(self, .ignored) }
}
