internal import BreakerCore
internal import BreakerStore

/// Taking the outcomes of calls.
extension Engine {
  /// How a call went.
  struct Report {
    var outcome: CallOutcome
    var ticket: Ticket
    var elapsed: Duration?

    /// Whether a call was made; if not, its permission is only given back.
    var isOfCall = true

    /// Whether this process's own breaker takes the outcome while the store cannot.
    var isKeptAlone = true
  }

  /// Accepts the outcome of a call that was permitted, whether or not the store can be used.
  func accept(_ report: Report, of cell: Cell) -> ReportVerdict {
    // A wait that was ended early is over for good: the outcome stays in this process.
    accept(report, of: cell, mayWait: true) ?? acceptAlone(report, of: cell)
  }

  /// Accepts the outcome of a call that was permitted.
  ///
  /// - Parameters:
  ///   - report: How the call went.
  ///   - cell: The cell of the breaker.
  ///   - mayWait: Whether the report may wait for a file or another process.
  /// - Returns: The verdict on the report. It is nil, and nothing has changed, if the report takes
  ///   reading or writing the store and the caller must not wait or its wait was ended early.
  func accept(_ report: Report, of cell: Cell, mayWait: Bool) -> ReportVerdict? {
    let verdict = acceptOutcome(report, of: cell, mayWait: mayWait)
    // Without the store no outcome is counted, and a ramp that is known goes on all the same.
    let hasEnded = verdict == .counted || (verdict != nil && report.ticket.source == .none)
    if hasEnded, report.outcome == .success {
      letRampGrow(after: report.ticket, of: cell)
    }
    return verdict
  }

  /// Lets more calls begin in a ramp, after one has succeeded.
  func letRampGrow(after ticket: Ticket, of cell: Cell) {
    guard let inForce = limit(over: ticket, of: cell), inForce.terms.rampUntil != nil else {
      return
    }
    let slots = inForce.limit.slots
    // It may have begun with this success.
    if slots.adopt(inForce.terms) {
      slots.noteSuccess(
        ofUnits: ticket.held.map { slots.units(of: $0) } ?? 1, in: inForce.terms)
    }
  }

  private func acceptOutcome(_ report: Report, of cell: Cell, mayWait: Bool) -> ReportVerdict? {
    // The parent of a fork reports its own calls, and a process that has ended reports nothing.
    guard report.ticket.isOwn, options.processes.ending() == nil else { return .refused }
    switch report.ticket.source {
    case .none:
      noteEnd(report, on: cell)
      return .outdated
    case .local:
      if !isAvailable || isAlone(cell) { return acceptAlone(report, of: cell) }
      guard case .hold(let wish) = report.outcome else {
        noteEnd(report, on: cell)
        return .outdated
      }
      guard mayWait else { return nil }
      noteEnd(report, on: cell)
      // A time that a resource has named counts, even from a call that is no longer judged.
      return tell(wish, of: cell)
    case .store: break
    }
    return waiting { () -> ReportVerdict? in
      switch turn(of: cell, mayWait: mayWait) {
      case .tryAgain: return nil
      case .goWithout: return acceptAlone(report, of: cell)
      case .use: break
      }
      do throws(StoreError) {
        return try mayWait
          ? acceptInStore(report, of: cell)
          : acceptWithoutWriting(report, of: cell, mayWait: false)
      } catch {
        if error.isInterrupted { return nil }
        failed(error, of: cell)
        return acceptAlone(report, of: cell)
      }
    }
  }

  /// Tells the store of a hold that a call has brought which began while this process was without the store.
  private func tell(_ wish: CallOutcome.Hold, of cell: Cell) -> ReportVerdict {
    let permit = PermitGrant(kind: .normal, generation: PermitGrant.unjudged)
    let giver = HoldGiver.call(permit, by: "process \(ownProcess().pid)")
    waiting {
      do throws(StoreError) {
        _ = try step(cell) { $0.hold(for: wish, by: giver) }
      } catch {
        failed(error, of: cell)
        _ = stepAlone(cell, orCreate: true) { $0.hold(for: wish, by: giver) }
      }
    }
    return .outdated
  }

  /// Accepts the outcome of a call, and throws if the store cannot take it.
  func acceptInStore(_ report: Report, of cell: Cell) throws(StoreError) -> ReportVerdict {
    if let verdict = try acceptWithoutWriting(report, of: cell, mayWait: true) { return verdict }
    let ticket = report.ticket
    let reporter = ownProcess()
    let done = try step(cell, orCreate: false) { draft in
      draft.report(
        report.outcome, for: ticket.grant(on: draft.breaker), elapsed: report.elapsed,
        by: reporter)
    }
    if done != nil { noteEnd(report, on: cell) }
    return done?.answer ?? Self.missed(ticket)
  }

  /// Counts an outcome that changes nothing else; nil if it has to be written, or takes reading the
  /// store and the caller must not wait.
  private func acceptWithoutWriting(
    _ report: Report, of cell: Cell, mayWait: Bool
  ) throws(StoreError) -> ReportVerdict? {
    // A failure leaves its text and time behind, so it is written even if it no longer counts.
    guard !report.outcome.isWritten, try isCurrent(mayWait: mayWait) else { return nil }
    // Other processes have written to the store, but have not changed this breaker.
    if countUnchanged(report, of: cell) { return .counted }
    return try known(cell, mayWait: mayWait).flatMap { count(report, of: cell, $0) }
  }

  /// Counts an outcome if the breaker has not changed since it permitted the call; otherwise returns
  /// false, and its record has to be looked at.
  ///
  /// The caller has checked that the cells are current.
  private func countUnchanged(_ report: Report, of cell: Cell) -> Bool {
    let word = report.ticket.word
    switch report.outcome {
    case .success where word.has(CellWord.measures):
      guard let elapsed = report.elapsed, cell.counts(under: word),
        !cell.isSlow(elapsed.inNanoseconds)
      else { return false }
      countNow(cell, word)
      noteMarked(report.ticket, on: cell)
      return true
    case .success:
      guard countSuccess(of: cell, since: 0, under: word) else { return false }
      noteMarked(report.ticket, on: cell)
      return true
    case .ignored:
      guard word.has(CellWord.permits | CellWord.permitsWithinLimit), cell.word == word else {
        return false
      }
      cell.count(Counted(of: .ignored, isJudged: true, isSlow: false))
      noteEnd(report, on: cell)
      return true
    case .failure, .hold:
      return false
    }
  }

  /// Counts an outcome that changes nothing else; nil if it has to be written.
  private func count(_ report: Report, of cell: Cell, _ known: Known) -> ReportVerdict? {
    // The breaker that gave the permit was deleted, so nothing is left to take the outcome.
    guard known.exists else { return Self.missed(report.ticket) }
    let record = known.breaker.record
    let grant = report.ticket.grant(on: known.breaker)
    let now = clock.instant
    let isOnlyCounted = record.isOnlyCounted(
      report.outcome, for: grant, elapsed: report.elapsed, at: now, policy: known.policy,
      isWindowElsewhere: known.counters != nil)
    guard isOnlyCounted else { return nil }
    let isJudged = record.isJudged(grant, at: now) && record.state == .closed
    if report.outcome == .success, isJudged, known.counters != nil {
      if known.policy.marksSuccesses { beginBucket(of: cell) }
      noteMarked(report.ticket, on: cell)
    } else {
      noteEnd(report, on: cell)
    }
    cell.count(
      Counted(of: report.outcome, isJudged: isJudged, isSlow: known.policy.isSlow(report.elapsed)))
    return grant.generation >= record.generationOfState ? .counted : .outdated
  }

  /// The verdict on the outcome of a call whose breaker was deleted.
  private static func missed(_ ticket: Ticket) -> ReportVerdict {
    ticket.kind == .probe ? .refused : .outdated
  }

  /// Accepts the outcome of a call while the store cannot take it.
  private func acceptAlone(_ report: Report, of cell: Cell) -> ReportVerdict {
    if report.ticket.source == .store, report.ticket.kind == .probe {
      let now = clock.moment
      // It is written later, and its time has begun.
      update { $0.unwrittenProbes.note(report.endingHold(countedFrom: now), of: cell) }
    } else {
      noteEnd(report, on: cell)
    }
    // Without the store, the callers of this breaker ask no other one.
    guard report.isKeptAlone else { return .outdated }
    let reporter = ownProcess()
    let done = stepAlone(cell, orCreate: true) {
      $0.report(
        report.outcome, for: report.ticket.grant, elapsed: report.elapsed, by: reporter)
    }
    return done?.answer ?? .refused
  }
}

/// Renewing the leases of probes.
extension Engine {
  /// Gives the probe of a ticket more time; returns false if it no longer holds its lease.
  func renew(
    _ ticket: Ticket, of cell: Cell, for time: Duration?
  ) throws(StoreError) -> Bool {
    guard ticket.kind == .probe else { return true }
    guard ticket.isOwn else { return false }
    switch ticket.source {
    case .none:
      return true
    case .local:
      return stepAlone(cell, orCreate: false) { $0.renew(ticket.grant, for: time) }?.answer ?? false
    case .store:
      return try waiting { () throws(StoreError) in
        if let trouble = trouble(of: cell) { throw trouble }
        do throws(StoreError) {
          return try renewInStore(ticket, of: cell, for: time)
        } catch {
          failed(error, of: cell)
          throw error
        }
      }
    }
  }

  func renewInStore(
    _ ticket: Ticket, of cell: Cell, for time: Duration?
  ) throws(StoreError) -> Bool {
    guard ticket.kind == .probe else { return true }
    return try step(cell, orCreate: false) { draft in
      draft.renew(ticket.grant(on: draft.breaker), for: time)
    }?.answer ?? false
  }
}

extension Engine.Report {
  /// The report with the end of the hold that it asks for instead of its length.
  fileprivate func endingHold(countedFrom now: Moment) -> Engine.Report {
    guard case .hold(var wish) = outcome, case .lasting? = wish.time,
      let length = wish.nanoseconds(at: now)
    else { return self }
    var report = self
    wish.time = .until(now.wallMilliseconds.addingSaturating(length / 1_000_000))
    report.outcome = .hold(wish)
    return report
  }
}

extension Counted {
  fileprivate init(of outcome: CallOutcome, isJudged: Bool, isSlow: Bool) {
    self.init()
    switch outcome {
    case .success where isJudged: successes = 1
    case .success: unjudged = 1
    case .ignored: ignored = 1
    case .failure, .hold: preconditionFailure("a failure and a hold are written")
    }
    if isSlow, outcome != .ignored { slow = 1 }
  }
}
