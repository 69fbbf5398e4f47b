internal import BreakerCore

/// One attempt of a ``BreakerJob``, to which the work reports how it ended, from any thread.
///
/// The first report counts, and the timeout is one too; all that come later are ignored.
public final class JobAttempt: Sendable {
  /// The job that the attempt belongs to.
  public let job: BreakerJob

  let ticket: Ticket
  let run: UInt64

  /// Takes back what the timer has to do for the attempt: to end it, or to begin the next one.
  ///
  /// Under the job's lock.
  nonisolated(unsafe) var takeBack: (@Sendable () -> Void)?

  init(_ job: BreakerJob, _ ticket: Ticket, in run: UInt64) {
    self.job = job
    self.ticket = ticket
    self.run = run
  }

  /// What the attempt is for: an ordinary one, or a probe.
  public var kind: PermitKind { ticket.grant.kind }

  /// Reports that the work has succeeded.
  ///
  /// - Returns: Whether the report counts.
  @discardableResult
  public func success() -> Bool { job.end(self, .success) }

  /// Reports that the work has failed, and with which error if it knows.
  ///
  /// - Returns: Whether the report counts.
  @discardableResult
  public func failure(_ error: (any Error)? = nil) -> Bool { job.end(self, .failure(error)) }

  /// Reports that the work tells nothing about the resource.
  ///
  /// - Returns: Whether the report counts.
  @discardableResult
  public func ignore() -> Bool { job.end(self, .ignored) }
}
