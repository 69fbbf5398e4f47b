internal import BreakerCore
internal import BreakerStore
internal import Synchronization

extension Engine {
  /// Takes the outcome of a call that was let through; the store's trouble is not the caller's.
  func report(
    _ outcome: Outcome, for ticket: Ticket, of cell: Cell, elapsed: Duration?
  ) -> ReportVerdict {
    // What a child of a fork has inherited is its parent's to report.
    guard ticket.process == ForkGuard.generation else { return .refused }
    switch ticket.source {
    case .none:
      return .outdated
    case .local:
      return isUnavailable.load(ordering: .relaxed)
        ? reportLocally(outcome, for: ticket, of: cell, elapsed: elapsed) : .outdated
    case .store:
      if trouble() != nil { return reportLocally(outcome, for: ticket, of: cell, elapsed: elapsed) }
      do throws(StoreError) {
        return try reportToStore(outcome, for: ticket, of: cell, elapsed: elapsed)
      } catch {
        failed(error)
        return reportLocally(outcome, for: ticket, of: cell, elapsed: elapsed)
      }
    }
  }

  /// Takes the outcome of a call, and throws if the store cannot take it.
  func reportToStore(
    _ outcome: Outcome, for ticket: Ticket, of cell: Cell, elapsed: Duration?
  ) throws(StoreError) -> ReportVerdict {
    // A failure leaves its text and time behind, so it is written also if it no longer counts.
    if !outcome.isFailure {
      let known = try known(cell)
      // The breaker that gave the permit was deleted: nobody is left to be told.
      guard known.exists || ticket.breaker == 0 else { return Self.missed(ticket) }
      let grant = Self.grant(of: ticket, on: known.breaker)
      if known.breaker.record.isOnlyCounted(
        outcome, for: grant, elapsed: elapsed, at: clock.instant, policy: known.policy)
      {
        cell.count(Self.totals(outcome, isSlow: known.policy.isSlow(elapsed)))
        return grant.generation == known.breaker.record.generation ? .counted : .outdated
      }
    }
    let reporter = ownProcess()
    let done = try step(cell, orCreate: ticket.breaker == 0) { draft, policy in
      let grant = Self.grant(of: ticket, on: draft.breaker)
      return draft.apply { record, now in
        record.reported(
          outcome, for: grant, elapsed: elapsed, at: now, by: reporter, policy: policy,
          jitter: Jitter.drawn(), isGone: ProcessTable.isGone)
      }
    }
    return done?.answer ?? Self.missed(ticket)
  }

  /// What becomes of the outcome of a call whose breaker was deleted.
  private static func missed(_ ticket: Ticket) -> ReportVerdict {
    ticket.grant.kind == .probe ? .refused : .outdated
  }

  private func reportLocally(
    _ outcome: Outcome, for ticket: Ticket, of cell: Cell, elapsed: Duration?
  ) -> ReportVerdict {
    local.seed(lastKnown(cell).breaker)
    let reporter = ownProcess()
    let transacted = local.transact(cell.name, orCreate: true, wait: .usual) { draft in
      let policy = draft.breaker.policy
      return draft.apply { record, now in
        record.reported(
          outcome, for: ticket.grant, elapsed: elapsed, at: now, by: reporter, policy: policy,
          jitter: Jitter.drawn(), isGone: ProcessTable.isGone)
      }
    }
    return transacted?.answer ?? .refused
  }

  /// The grant, unless it is of a breaker that was deleted and made again under the same name.
  private static func grant(of ticket: Ticket, on breaker: StoredBreaker) -> PermitGrant {
    var grant = ticket.grant
    if ticket.breaker != 0, breaker.id != 0, ticket.breaker != breaker.id {
      grant.generation = PermitGrant.unjudged
    }
    return grant
  }

  private static func totals(_ outcome: Outcome, isSlow: Bool) -> Totals {
    var totals = Totals()
    switch outcome {
    case .success: totals.successes = 1
    case .failure: totals.failures = 1
    case .ignored: totals.ignored = 1
    }
    if isSlow, outcome != .ignored { totals.slow = 1 }
    return totals
  }
}

extension Outcome {
  var isFailure: Bool {
    if case .failure = self { return true }
    return false
  }
}
