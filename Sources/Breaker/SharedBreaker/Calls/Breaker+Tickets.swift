internal import BreakerCore
internal import BreakerStore

/// Calls of a caller that keeps their tickets itself: the C library.
///
/// It makes sure that each ticket is used once. A call that the healthy path permits has a `HealthyCall` instead.
extension Breaker {
  /// Rejects a call from memory because the breaker is open or held, and notifies the observer.
  ///
  /// - Returns: How many nanoseconds the caller should wait, and whether a hold is the cause; nil if only the store
  ///   can decide.
  package func waitFromMemory() -> (nanoseconds: Int64, isHeld: Bool)? {
    guard let wait = engine.waitFromMemory(cell) else { return nil }
    if engine.options.observer != nil {
      _ = told(.fromMemory(for: wait.nanoseconds, isHeld: wait.isHeld))
    }
    return wait
  }

  /// Asks for the right to make one call that the healthy path has not permitted, and notifies the
  /// observer of a rejection.
  ///
  /// - Parameters:
  ///   - mayWait: Whether the call may wait for a file, another process, or its turn.
  ///   - isRetry: Whether the call is sent again.
  ///   - outers: The calls that surround this one.
  ///   - asleep: Runs a body in which the thread sleeps until its turn.
  /// - Returns: The decision; nil if the call must not wait and the decision takes reading or writing
  ///   the store, or a turn in the queue.
  /// - Throws: `BreakerError.store` as ``acquire(probeTimeout:isRetry:)`` does.
  package func enter(
    mayWait: Bool, isRetry: Bool = false, insideOf outers: OuterCalls = OuterCalls(),
    asleep: (@Sendable (() -> Void) -> Void)? = nil
  ) throws(BreakerError) -> Decision<Ticket>? {
    if isRetry, let refusal = engine.retryRefusal(of: cell) { return .rejected(told(refusal)) }
    if !isRetry, let ticket = engine.takeRoom(on: cell, claim, outers: outers) {
      return .permitted(ticket)
    }
    var request = request(probeTimeout: nil)
    request.outers = outers
    request.asleep = asleep
    let decision =
      try mayWait ? engine.admit(request, to: cell) : engine.admitAtOnce(request, to: cell)
    return decision.map { told(kept($0, isRetry: isRetry)) }
  }

  /// The answer to a call that must be under no limit.
  package enum UnlimitedEntry {
    case decided(Decision<Ticket>)

    /// It is under a limit, and nothing has changed.
    case limited
  }

  /// Asks for the right to make one call if it is under no limit.
  ///
  /// - Parameters:
  ///   - mayWait: Whether the call may wait for a file or another process.
  ///   - isRetry: Whether the call is sent again.
  /// - Returns: The answer; nil if the call must not wait and the answer takes reading or writing the
  ///   store.
  /// - Throws: `BreakerError.store` as ``acquire(probeTimeout:isRetry:)`` does.
  package func enterUnlimited(
    mayWait: Bool, isRetry: Bool = false
  ) throws(BreakerError) -> UnlimitedEntry? {
    if engine.isLimited(cell) { return .limited }
    switch try engine.begin(request(probeTimeout: nil), on: cell, mayWait: mayWait) {
    case .decided(let decision)?: return .decided(told(kept(decision, isRetry: isRetry)))
    case .looksForRoom(let ticket, _)?:
      // This process did not know the breaker before, or the call has to wait for the end of a hold.
      if let ticket { engine.giveUp(ticket, of: cell) }
      return .limited
    case nil: return nil
    }
  }

  /// Reports how a call went; nil, and nothing has changed, if that takes reading or writing the store
  /// and the caller must not wait or its wait was ended early.
  package func leave(
    _ ticket: Ticket, _ outcome: CallOutcome, elapsed: Duration?, mayWait: Bool
  ) -> ReportVerdict? {
    let verdict =
      outcome == .success && elapsed == nil && counts(ticket)
      ? .counted
      : engine.accept(
        report(outcome, of: ticket, elapsed: elapsed), of: cell, mayWait: mayWait)
    if verdict != nil, let held = ticket.held { engine.giveBack(held, on: cell) }
    return verdict
  }

  /// Whether calls are permitted if there is room for them, as far as this process knows.
  package var permitsWithinLimit: Bool { cell.word.has(CellWord.permitsWithinLimit) }

  /// Gives back the room of a call whose outcome can no longer be reported, as after its store was
  /// closed.
  package func giveBackRoom(of ticket: Ticket) {
    if let held = ticket.held { engine.giveBack(held, on: cell) }
  }
}
