public import BreakerCore
internal import Synchronization

/// A permit that you can keep in a closure, a task or a dictionary, and report on once.
///
/// The compiler makes sure that a ``Permit`` is used once; for a shared permit that is checked when you
/// report:
///
/// ```swift
/// let permit = try payments.acquire().shared()
/// client.send(request) { answer in
///   permit.report(answer.isOK ? .success : .failure(error: answer.text))
/// }
/// ```
///
/// The first report counts, from whichever thread it comes. If the last reference goes away without a
/// report, the call counts as ignored, and a probe's slot is free again. Everything else is as with a
/// ``Permit``.
public final class SharedPermit: Sendable {
  private let breaker: Breaker
  private let ticket: Ticket
  private let isUsed = Atomic<Bool>(false)

  init(_ breaker: Breaker, _ ticket: Ticket) {
    self.breaker = breaker
    self.ticket = ticket
  }

  deinit { report(.ignored) }

  /// Whether the permit is for an ordinary call or for a probe.
  public var kind: PermitKind { ticket.grant.kind }

  /// Reports how the call went.
  ///
  /// - Parameters:
  ///   - outcome: What the call says about the resource.
  ///   - elapsed: How long the call took; if nil, the time since the permit was given.
  /// - Returns: What became of the report; it is refused if there was one before.
  @discardableResult
  public func report(_ outcome: CallOutcome, elapsed: Duration? = nil) -> ReportVerdict {
    guard !isUsed.exchange(true, ordering: .relaxed) else { return .refused }
    return breaker.end(ticket, outcome, elapsed: elapsed)
  }

  /// Keeps the lease of a probe that takes long; see ``Permit/renew(for:)``.
  ///
  /// - Parameter time: How long the lease lasts from now on; `probe-timeout` if nil.
  /// - Returns: Whether the call is still under way; if not, its outcome will be refused.
  /// - Throws: `BreakerError.store` if the store cannot be used. The lease is as it was: try again.
  @discardableResult
  public func renew(for time: Duration? = nil) throws(BreakerError) -> Bool {
    guard !isUsed.load(ordering: .relaxed) else { return false }
    return try breaker.renew(ticket, for: time)
  }
}
