internal import BreakerCore
internal import BreakerStore

/// Counting attempts, and the retries among them, for breakers with a budget for retries.
extension Engine {
  /// The rejection of a retry that the budget of its breaker would not permit now; nil if it would.
  func retryRefusal(of cell: Cell) -> Rejection? {
    // A call that the state or a hold rejects is rejected for that, and is no retry.
    guard cell.word.has(CellWord.permits | CellWord.permitsWithinLimit),
      let (budget, counters) = retryBudget(of: cell), !isObserving(cell)
    else { return nil }
    let wait = counters.attempts.retryWait(
      under: budget, counted: { counters.successes }, at: { clock.instant })
    return wait.map { refusal(of: cell, wait: $0) }
  }

  /// Counts a retry that is about to be sent.
  ///
  /// - Returns: Nil if it may be sent; otherwise its rejection.
  func takeRetry(of cell: Cell) -> Rejection? {
    guard let (budget, counters) = retryBudget(of: cell) else { return nil }
    let wait = counters.attempts.takeRetry(
      under: budget, counted: { counters.successes }, at: { clock.instant })
    guard let wait else {
      cell.count(.oneRetry)
      return nil
    }
    guard isObserving(cell) else { return refusal(of: cell, wait: wait) }
    cell.count(.oneRetry)
    cell.count(.oneWouldReject)
    return nil
  }

  private func refusal(of cell: Cell, wait: Int64) -> Rejection {
    cell.count(.oneOverBudget)
    let record = lastKnown(cell).breaker.record
    return cell.spread(
      Rejection(
        state: record.state, mode: record.mode(at: clock.instant), retryAfter: .nanoseconds(wait),
        cause: .retryBudget))
  }

  /// Gives back all that a call has taken which is not made.
  func withdraw(_ ticket: Ticket, of cell: Cell) {
    giveUp(ticket, of: cell)
    if let held = ticket.held { giveBack(held, on: cell) }
  }

  /// Notes the end of an attempt of which no mark tells.
  func noteEnd(_ report: Report, on cell: Cell) {
    guard cell.mayHaveRetryBudget, report.isOfCall, !report.ticket.isRetry else { return }
    retryBudget(of: cell)?.counters.attempts.noteFirst { clock.instant }
  }

  /// Notes a success of which a mark tells, if it is that of a retry.
  func noteMarked(_ ticket: Ticket, on cell: Cell) {
    guard ticket.isRetry else { return }
    retryBudget(of: cell)?.counters.attempts.noteSuccessOfRetry { clock.instant }
  }

  /// The attempts of the last ten seconds; nil without a budget for retries.
  func recentAttempts(of cell: Cell) -> RecentAttempts? {
    retryBudget(of: cell).map { recent($0.counters) }
  }

  /// The attempts of the last ten seconds; nil without a budget for retries, or without a place that processes share.
  func recentAttempts(of breaker: StoredBreaker) -> RecentAttempts? {
    breaker.policy.retryBudget.flatMap { _ in storage.counters(of: breaker) }.map(recent)
  }

  private func recent(_ counters: Counters) -> RecentAttempts {
    counters.attempts.recent(counted: { counters.successes }, at: { clock.instant })
  }

  /// The budget for retries that is in force, and where attempts are counted; nil without one.
  private func retryBudget(of cell: Cell) -> (budget: RetryBudget, counters: Counters)? {
    guard cell.mayHaveRetryBudget else { return nil }
    let (agreed, counters) = look { state in
      (state.knowledge[cell].agreed?.policy, state.knowledge.countersInUse(of: cell))
    }
    // A process that has never been able to use the store goes on by the policy of its code.
    let policy = agreed ?? local.find(cell.name)?.policy ?? lastKnown(cell).policy
    return policy.retryBudget.map { (RetryBudget($0), counters) }
  }
}

/// Calls that are sent again.
extension Breaker {
  /// A decision on a call, unless that is a retry which the budget does not let be sent.
  ///
  /// A call that is rejected for another cause is no retry, so it leaves the budget as it was. Its caller asks
  /// `retryRefusal` before as well, because a retry that is refused in the end may have waited in vain, or used up an
  /// instant of a rate.
  func kept(_ decision: Decision<Ticket>, isRetry: Bool) -> Decision<Ticket> {
    guard isRetry, case .permitted(var ticket) = decision else { return decision }
    guard let refusal = engine.takeRetry(of: cell) else {
      ticket.isRetry = true
      return .permitted(ticket)
    }
    engine.withdraw(ticket, of: cell)
    return .rejected(refusal)
  }
}
