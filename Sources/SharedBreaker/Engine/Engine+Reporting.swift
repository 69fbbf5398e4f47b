internal import BreakerCore
internal import BreakerStore

/// The outcomes of calls.
extension Engine {
  /// How a call went.
  struct Report {
    var outcome: CallOutcome
    var ticket: Ticket
    var elapsed: Duration?

    /// Whether a breaker of this process alone takes it while the store cannot.
    var isKeptAlone = true

    func make(
      on draft: inout BreakerDraft, for grant: PermitGrant, by reporter: ProcessIdentity
    ) -> ReportVerdict {
      let policy = draft.breaker.policy
      return draft.apply { record, now in
        record.reported(
          outcome, for: grant, elapsed: elapsed, at: now, by: reporter, policy: policy,
          jitter: Jitter.drawn())
      }
    }
  }

  /// Accepts the outcome of a call that was permitted; the store's trouble is not the caller's.
  func accept(_ report: Report, of cell: Cell) -> ReportVerdict {
    acceptUnlessInterrupted(report, of: cell) ?? acceptAlone(report, of: cell)
  }

  /// Accepts the outcome of a call; nil if the wait for the store was ended early, and nothing has
  /// changed.
  func acceptUnlessInterrupted(_ report: Report, of cell: Cell) -> ReportVerdict? {
    // The parent reports what the child of a fork has inherited; a process that has ended reports
    // nothing.
    guard report.ticket.isOwn, options.processes.ending() == nil else { return .refused }
    switch report.ticket.source {
    case .none:
      return .outdated
    case .local:
      return !isAvailable || isAlone(cell) ? acceptAlone(report, of: cell) : .outdated
    case .store:
      return waiting {
        if trouble(of: cell) != nil { return acceptAlone(report, of: cell) }
        do throws(StoreError) {
          return try acceptInStore(report, of: cell)
        } catch {
          if error.isInterrupted { return nil }
          failed(error, of: cell)
          return acceptAlone(report, of: cell)
        }
      }
    }
  }

  /// Accepts the outcome of a call, and throws if the store cannot take it.
  func acceptInStore(_ report: Report, of cell: Cell) throws(StoreError) -> ReportVerdict {
    let (outcome, ticket) = (report.outcome, report.ticket)
    if !outcome.isFailure {
      if !isCurrent { try refresh() }
      // What another process has written changes nothing for this breaker.
      if countUnchanged(report, of: cell) { return .counted }
      if let verdict = count(report, of: cell, try known(cell)) { return verdict }
    }
    // A failure leaves its text and time behind, so it is written even if it no longer counts.
    let reporter = ownProcess()
    let done = try step(cell, orCreate: false) { draft in
      report.make(on: &draft, for: ticket.grant(on: draft.breaker), by: reporter)
    }
    return done?.answer ?? Self.missed(ticket)
  }

  /// Counts an outcome for which the breaker is as it was when it let the call through; false if its
  /// record has to be looked at.
  ///
  /// The caller has checked that the cells are current.
  func countUnchanged(_ report: Report, of cell: Cell) -> Bool {
    let word = report.ticket.word
    switch report.outcome {
    case .success where word.has(CellWord.measures):
      guard let elapsed = report.elapsed, cell.counts(under: word),
        !cell.isSlow(elapsed.inNanoseconds)
      else { return false }
      countNow(cell, word)
      return true
    case .success:
      return countSuccess(of: cell, since: 0, under: word)
    case .ignored:
      guard word.has(CellWord.permits), cell.word == word else { return false }
      cell.count(Counted(of: .ignored, isJudged: true, isSlow: false))
      return true
    case .failure:
      return false
    }
  }

  /// Counts an outcome that changes nothing else; nil if it has to be written.
  func count(_ report: Report, of cell: Cell, _ known: Known) -> ReportVerdict? {
    // The breaker that gave the permit was deleted, so nobody is left to take the outcome.
    guard known.exists else { return Self.missed(report.ticket) }
    let record = known.breaker.record
    let grant = report.ticket.grant(on: known.breaker)
    let now = clock.instant
    let isOnlyCounted = record.isOnlyCounted(
      report.outcome, for: grant, elapsed: report.elapsed, at: now, policy: known.policy,
      isWindowElsewhere: known.counters != nil)
    guard isOnlyCounted else { return nil }
    let isJudged = record.isJudged(grant, at: now) && record.state == .closed
    if isJudged, report.outcome == .success, known.policy.window != nil { beginBucket(of: cell) }
    cell.count(
      Counted(of: report.outcome, isJudged: isJudged, isSlow: known.policy.isSlow(report.elapsed)))
    return grant.generation == record.generation ? .counted : .outdated
  }

  /// What becomes of the outcome of a call whose breaker was deleted.
  private static func missed(_ ticket: Ticket) -> ReportVerdict {
    ticket.grant.kind == .probe ? .refused : .outdated
  }

  /// Accepts the outcome of a call while the store cannot take it.
  func acceptAlone(_ report: Report, of cell: Cell) -> ReportVerdict {
    if report.ticket.source == .store, report.ticket.grant.kind == .probe {
      update { $0.unwrittenProbes.note(report, of: cell) }
    }
    // Its callers ask no breaker while the store is gone, so there is none to tell.
    guard report.isKeptAlone else { return .outdated }
    let reporter = ownProcess()
    let done = stepAlone(cell, orCreate: true) { draft in
      report.make(on: &draft, for: report.ticket.grant, by: reporter)
    }
    return done?.answer ?? .refused
  }
}

extension Counted {
  fileprivate init(of outcome: CallOutcome, isJudged: Bool, isSlow: Bool) {
    self.init()
    switch outcome {
    case .success where isJudged: successes = 1
    case .success: unjudged = 1
    case .ignored: ignored = 1
    case .failure: preconditionFailure("a failure is written")
    }
    if isSlow, outcome != .ignored { slow = 1 }
  }
}
