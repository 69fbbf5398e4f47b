internal import BreakerCore
internal import BreakerStore
internal import Synchronization

extension Engine {
  /// Takes the outcome of a call that was let through; the store's trouble is not the caller's.
  func report(
    _ outcome: Outcome, for ticket: Ticket, of cell: Cell, elapsed: Duration?
  ) -> ReportVerdict {
    // What a child of a fork has inherited is its parent's to report; who has ended reports nothing.
    guard ticket.isOwn, options.processes.ending() == nil else { return .refused }
    switch ticket.source {
    case .none:
      return .outdated
    case .local:
      return isUnavailable.load(ordering: .relaxed) || isAlone(cell)
        ? reportLocally(outcome, for: ticket, of: cell, elapsed: elapsed) : .outdated
    case .store:
      if trouble(of: cell) != nil {
        return reportLocally(outcome, for: ticket, of: cell, elapsed: elapsed)
      }
      do throws(StoreError) {
        return try reportToStore(outcome, for: ticket, of: cell, elapsed: elapsed)
      } catch {
        failed(error, of: cell)
        return reportLocally(outcome, for: ticket, of: cell, elapsed: elapsed)
      }
    }
  }

  /// Takes the outcome of a call, and throws if the store cannot take it.
  func reportToStore(
    _ outcome: Outcome, for ticket: Ticket, of cell: Cell, elapsed: Duration?
  ) throws(StoreError) -> ReportVerdict {
    if !outcome.isFailure {
      if !isCurrent { try refresh() }
      // What a neighbour has written changes nothing for this breaker.
      if outcome == .success, !cell.word.has(CellWord.measures),
        countSuccess(of: cell, since: 0, under: ticket.word)
      {
        return .counted
      }
      let known = try known(cell)
      // The breaker that gave the permit was deleted: nobody is left to be told.
      guard known.exists else { return Self.missed(ticket) }
      if let verdict = count(outcome, for: ticket, of: cell, known, elapsed: elapsed) {
        return verdict
      }
    }
    // A failure leaves its text and time behind, so it is written also if it no longer counts.
    let reporter = ownProcess()
    let done = try step(cell, orCreate: false) { draft, policy in
      let grant = ticket.grant(on: draft.breaker)
      return draft.apply { record, now in
        record.reported(
          outcome, for: grant, elapsed: elapsed, at: now, by: reporter, policy: policy,
          jitter: Jitter.drawn())
      }
    }
    return done?.answer ?? Self.missed(ticket)
  }

  /// Counts an outcome that changes nothing else; nil if it has to be written.
  private func count(
    _ outcome: Outcome, for ticket: Ticket, of cell: Cell, _ known: Known, elapsed: Duration?
  ) -> ReportVerdict? {
    let record = known.breaker.record
    let grant = ticket.grant(on: known.breaker)
    let now = clock.instant
    let isOnlyCounted = record.isOnlyCounted(
      outcome, for: grant, elapsed: elapsed, at: now, policy: known.policy,
      isWindowElsewhere: known.counters != nil)
    guard isOnlyCounted else { return nil }
    let isJudged = record.isJudged(grant, at: now) && record.state == .closed
    if isJudged, outcome == .success, known.policy.window != nil { beginBucket(of: cell) }
    cell.count(Self.counted(outcome, isJudged: isJudged, isSlow: known.policy.isSlow(elapsed)))
    return grant.generation == record.generation ? .counted : .outdated
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
          jitter: Jitter.drawn())
      }
    }
    return transacted?.answer ?? .refused
  }

  private static func counted(_ outcome: Outcome, isJudged: Bool, isSlow: Bool) -> Counted {
    var counted = Counted()
    switch outcome {
    case .success where isJudged: counted.successes = 1
    case .success: counted.unjudged = 1
    case .ignored: counted.ignored = 1
    case .failure: preconditionFailure("a failure is written")
    }
    if isSlow, outcome != .ignored { counted.slow = 1 }
    return counted
  }
}

extension Outcome {
  var isFailure: Bool {
    if case .failure = self { return true }
    return false
  }
}
