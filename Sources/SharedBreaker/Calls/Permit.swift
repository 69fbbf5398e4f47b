internal import BreakerCore

/// The right to make one call, and the duty to say how it went, in two steps.
///
/// A permit is used up by saying how the call went, so it cannot be used twice. One that is dropped
/// without a word is ignored: the breaker takes neither credit nor blame, and a probe's slot is
/// free again. A probe that takes longer than `probe-timeout` renews its lease: ``renew(for:)``.
public struct Permit: ~Copyable, Sendable {
  let breaker: Breaker
  let ticket: Ticket
  private var isUsed = false

  init(_ breaker: Breaker, _ ticket: Ticket) {
    self.breaker = breaker
    self.ticket = ticket
  }

  deinit { if !isUsed { breaker.end(ticket, .ignored) } }

  /// What the permit is for.
  public var kind: PermitKind { ticket.grant.kind }

  /// Says that the call succeeded.
  ///
  /// - Parameter elapsed: How long it took; measured since the permit was given if nil.
  /// - Returns: What became of it.
  @discardableResult
  public consuming func succeed(elapsed: Duration? = nil) -> ReportVerdict {
    use(.success, elapsed)
  }

  /// Says that the call failed.
  ///
  /// - Parameters:
  ///   - failure: What is known of the failure.
  ///   - elapsed: How long the call took; measured since the permit was given if nil.
  /// - Returns: What became of it.
  @discardableResult
  public consuming func fail(
    _ failure: Failure = Failure(), elapsed: Duration? = nil
  ) -> ReportVerdict {
    use(.failure(failure), elapsed)
  }

  /// Says that the call tells nothing about the resource.
  ///
  /// - Returns: What became of it.
  @discardableResult
  public consuming func ignore() -> ReportVerdict { use(.ignored, nil) }

  private mutating func use(_ outcome: Outcome, _ elapsed: Duration?) -> ReportVerdict {
    isUsed = true
    return breaker.end(ticket, outcome, elapsed: elapsed)
  }
}

/// A permit, or why there is none.
public enum PermitDecision: ~Copyable, Sendable {
  /// The call may be made.
  case permitted(Permit)

  /// The call may not be made.
  case rejected(Rejection)
}

extension Breaker {
  /// Asks for the right to make one call.
  ///
  /// - Returns: The permit, which belongs to this process: if it ends, a probe's slot is free again.
  /// - Throws: `BreakerError.rejected` if the call may not be made.
  public func acquire() throws(BreakerError) -> Permit { Permit(self, try begin()) }

  /// Asks for the right to make one call, with the answer as a value.
  ///
  /// - Returns: The permit, or the rejection.
  /// - Throws: `BreakerError.store` with ``StoreFailureAction/throw``, and nothing otherwise.
  public func decide() throws(BreakerError) -> PermitDecision {
    if let rejection = engine.rejectFromMemory(cell) { return .rejected(told(rejection)) }
    switch try decideCall() {
    case .permitted(let ticket): return .permitted(Permit(self, ticket))
    case .rejected(let rejection): return .rejected(told(rejection))
    }
  }
}
