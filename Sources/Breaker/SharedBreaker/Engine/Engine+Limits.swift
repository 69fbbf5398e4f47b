internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// Calls of breakers that limit how many may be under way.
///
/// A call is permitted first, and then takes its room. If there is no room, it gives its permission
/// back, with the lease of a probe.
extension Engine {
  /// The limit of a breaker in the store; nil if it has none.
  ///
  /// As long as there is no place that processes share, this one keeps to the limit alone.
  func limit(of breaker: StoredBreaker) -> CellLimit? {
    guard breaker.id > 0 else { return nil }
    return CellLimit(
      breaker,
      storage.slots(ofBreaker: breaker.id, forCalls: breaker.policy.rate?.calls ?? 0)
        ?? local.slots(ofBreakerNamed: breaker.name))
  }

  /// The calls under way on those of some breakers that have a limit, as far as that is known.
  func slots(of breakers: [StoredBreaker]) -> [Int64: SlotState] {
    let limited = breakers.filter { CellLimit.takesRoom($0) }
    return limited.isEmpty ? [:] : storage.slotStates(ofBreakers: limited.map(\.id))
  }

  /// The calls under way on a breaker while the store cannot be used; nil if that is not known, or if it
  /// has no limit.
  func slotsAlone(of cell: Cell) -> SlotState? {
    if cell.limit != nil {
      let row = look { $0.knowledge[cell].row }
      return row.flatMap { storage.slotStates(ofBreakers: [$0])[$0] }
    }
    guard let breaker = local.find(cell.name), CellLimit.takesRoom(breaker) else { return nil }
    return local.slotState(ofBreakerNamed: cell.name)
  }

  /// A snapshot of a breaker, with the calls under way on it.
  func snapshot(
    of breaker: StoredBreaker, at now: Moment, _ slots: [Int64: SlotState]
  ) -> BreakerSnapshot {
    BreakerSnapshot(
      of: breaker, at: now, slots: slots[breaker.id], attempts: recentAttempts(of: breaker),
      isGone: storage.isGone)
  }

  /// Permits a call from memory, and takes its room, if that takes nothing more than a free slot.
  ///
  /// - Parameters:
  ///   - cell: The cell of the breaker.
  ///   - claim: How much the call takes, and its priority.
  ///   - outers: Calls that surround it besides those of its task.
  /// - Returns: The ticket; nil if it takes more.
  func takeRoom(
    on cell: Cell, _ claim: CallClaim, outers: OuterCalls = OuterCalls()
  ) -> Ticket? {
    let call = takeSlot(on: cell, claim, outers)
    if call.isPermitted { return Ticket(call) }
    guard !CallNesting.mayInherit, let word = wordWithinLimit(of: cell),
      let surroundings = cell.withLimit({ limit, _ in
        CallNesting.surroundings(on: limit.slots, besides: outers)
      })
    else { return nil }
    var ticket = Ticket(word)
    if case .nothing = surroundings {
      guard let held = cell.withLimit({ $0.take(claim, $1) }) else { return nil }
      ticket.held = held
    } else {
      guard cell.withLimit({ $0.slots.beginsInside($1) ? true : nil }) != nil else { return nil }
      if case .own(let outer) = surroundings { ticket.outer = outer }
    }
    if word.has(CellWord.measures) { ticket.start = clock.instant }
    return ticket
  }

  /// Gives back the room of a call that has ended.
  @inline(__always) func giveBack(_ held: HeldSlot, on cell: Cell) {
    if !cell.endUnderLimitInForce(held) { giveBackElsewhere(held, on: cell) }
  }

  @inline(never) private func giveBackElsewhere(_ held: HeldSlot, on cell: Cell) {
    look { $0.knowledge.limit(of: held, on: cell) }?.slots.end(held)
  }

  /// The limit that a permitted call is under; nil if it is under none.
  func limit(over ticket: Ticket, of cell: Cell) -> LimitInForce? {
    let known = limitNow(of: cell)
    let limit: LimitInForce?
    switch ticket.source {
    // The page of the slots needs no store, so this process goes on sharing what it knows of.
    case .store, .none: limit = known
    case .local: limit = known ?? localLimit(of: cell)
    }
    guard let limit else { return nil }
    let takesRoom =
      limit.limit.isLimiting || limit.limit.isRated || limit.terms.rampUntil != nil
      || ticket.kind == .probe
    return takesRoom ? limit : nil
  }

  /// Whether calls are under a limit, as far as this process knows.
  func isLimited(_ cell: Cell) -> Bool {
    cell.limit != nil || local.find(cell.name)?.policy.boundsCalls == true
  }

  /// The limit of the breaker that stands in for a shared one.
  private func localLimit(of cell: Cell) -> LimitInForce? {
    guard let breaker = local.find(cell.name),
      let made = CellLimit(breaker, local.slots(ofBreakerNamed: cell.name))
    else { return nil }
    let limit = update { $0.knowledge.kept(made, by: cell) }
    return LimitInForce(limit: limit, of: breaker)
  }

  /// The limit of a breaker as this process knows it now; a ramp is over when its time is, also without the store.
  func limitNow(of cell: Cell) -> LimitInForce? {
    guard let (limit, terms) = cell.limit else { return nil }
    var now = LimitInForce(limit: limit, terms: terms)
    if let end = terms.rampUntil, end <= clock.instant { now.terms.rampUntil = nil }
    return now
  }

  /// Puts the limit and the ramp in force that this process knows.
  func adoptNow(of cell: Cell) {
    if let now = limitNow(of: cell) { now.limit.slots.adopt(now.terms) }
  }

  /// A limit, and the terms that a call knows.
  struct LimitInForce {
    var limit: CellLimit
    var terms: SlotTerms

    init(limit: CellLimit, terms: SlotTerms) {
      self.limit = limit
      self.terms = terms
    }

    init(limit: CellLimit, of breaker: StoredBreaker) {
      self.limit = limit
      terms = limit.terms(
        at: breaker.revision, rampUntil: breaker.ramp, headStart: breaker.record.rampHeadStart)
    }
  }
}

/// While a call looks for room.
extension Engine {
  /// Re-reads the limit after another process has put a newer one in force; nil if the breaker no longer has one.
  ///
  /// If nothing newer is in the store, the limit in force is wrong. If the store cannot be read, this process keeps
  /// to the limit in force.
  func limitNow(
    of cell: Cell, after known: LimitInForce, isLast: Bool
  ) -> LimitInForce? {
    guard isAvailable, !isAlone(cell) else { return limitOfOthers(known) }
    do throws(StoreError) {
      let found = try waiting { () throws(StoreError) in try storage.find(cell.name) }
      guard let found, let limit = limit(of: found) else { return nil }
      let kept = update { $0.knowledge.kept(limit, by: cell) }
      let now = LimitInForce(limit: kept, of: found)
      if isLast || now.terms.revision <= known.terms.revision { kept.slots.impose(now.terms) }
      return now
    } catch {
      failed(error, of: cell)
      return limitOfOthers(known)
    }
  }

  private func limitOfOthers(_ known: LimitInForce) -> LimitInForce {
    guard let terms = known.limit.slots.termsInForce(places: known.limit.places) else {
      // It was damaged, so the last one that is known counts.
      known.limit.slots.impose(known.terms)
      return known
    }
    return LimitInForce(limit: known.limit, terms: terms)
  }

  /// Whether a breaker still permits calls, as far as that is known, or holds them for no longer than until an instant
  /// of the monotonic clock.
  func isStillPermitted(_ cell: Cell, from source: Ticket.Source, until end: Int64) -> Bool {
    if isEnding.load(ordering: .sequentiallyConsistent) || options.processes.ending() != nil {
      return false
    }
    switch source {
    case .none: return true
    case .local: return isStillPermittedAlone(cell)
    case .store: if isPermittedWithinLimit(cell) { return true }
    }
    // A store that fails changes nothing for callers that wait, and is not asked for each of them.
    guard isAvailable, !isAlone(cell) else { return true }
    do throws(StoreError) {
      // Read again if it was forgotten, as after a change by another process: the caller keeps its place.
      _ = try waiting(.brief) { () throws(StoreError) in
        _ = try isCurrent(mayWait: true)
        if !cell.word.has(CellWord.permitsWithinLimit) { _ = try known(cell) }
      }
    } catch {
      return true
    }
    if cell.word.has(CellWord.permitsWithinLimit) { return true }
    if cell.word.has(CellWord.permits) { return false }
    // Another thread may have forgotten it since it was read; the next look reads it again.
    guard let known = look({ $0.knowledge[cell].known }) else { return true }
    guard known.exists else { return false }
    switch assess(known) {
    case .permitted: return known.limit != nil
    case .rejected(let rejection):
      // While another call goes first, its length is unknown.
      return rejection.cause == .held
        && known.holdLeft(at: clock.instant) < SlotWait.left(until: end)
    // The hold is over, and this caller may be the one that goes first.
    case .undecided: return known.breaker.record.state == .closed
    }
  }

  /// Whether the breaker that stands in for a shared one still permits calls; not if the shared one can be asked again.
  private func isStillPermittedAlone(_ cell: Cell) -> Bool {
    guard isAlone(cell) || trouble() != nil else { return false }
    guard let breaker = local.find(cell.name) else { return true }
    if case .permitted = assess(Known(breaker, exists: true)) { return true }
    return false
  }

  /// Whether a breaker permits calls for which there is room, as far as memory tells; false if it does not tell.
  func isPermittedWithinLimit(_ cell: Cell) -> Bool {
    isCurrent && cell.word.has(CellWord.permitsWithinLimit)
  }

  /// Whether calls of a breaker still take their room on some slots, as far as this process knows.
  func areInUse(_ slots: SlotBlock, by cell: Cell) -> Bool {
    cell.limit.map { $0.limit.slots === slots } ?? true
  }

  /// Whether a breaker is as it was when it permitted a call, so that the call need not be decided again.
  ///
  /// For a probe this may read the store.
  func isUnchanged(_ cell: Cell, since ticket: Ticket) -> Bool {
    if ticket.source != .store {
      let isUnchanged =
        ticket.source == .none || ticket.kind == .probe || isStillPermittedAlone(cell)
      return isUnchanged && options.processes.ending() == nil
    }
    switch ticket.kind {
    case .normal: return isCurrent && cell.word == ticket.word
    case .probe: return stillHasLease(ticket, of: cell)
    }
  }

  /// Whether the probe of a ticket still has its lease, as far as the store can tell.
  private func stillHasLease(_ ticket: Ticket, of cell: Cell) -> Bool {
    guard isAvailable, !isAlone(cell) else { return true }
    do throws(StoreError) {
      let breaker = try waiting(.brief) { () throws(StoreError) in try known(cell) }.breaker
      let grant = ticket.grant(on: breaker)
      return breaker.record.leases.contains {
        $0.id == grant.lease && $0.generation == grant.generation
      }
    } catch {
      // A store that fails takes no lease away.
      return true
    }
  }

  /// Gives up the lease of a call that is not made, if it has one.
  func giveUp(_ ticket: Ticket, of cell: Cell) {
    guard ticket.kind == .probe else { return }
    _ = accept(.init(outcome: .ignored, ticket: ticket, isOfCall: false), of: cell)
  }

  /// Sends away all callers that wait for room, because the store is being closed for good.
  func endWaits() {
    isEnding.store(true, ordering: .sequentiallyConsistent)
    wakeWaiters()
  }

  /// Has each caller that waits for room ask whether it still wants to.
  func wakeWaiters() {
    for cell in look({ $0.knowledge.limited }) {
      for limit in look({ $0.knowledge[cell].limits }) { limit.slots.wakeAll() }
    }
  }

  /// Whether the mode lets every call through and counts those that it would reject, as far as this
  /// process knows.
  func isObserving(_ cell: Cell) -> Bool {
    lastKnown(cell).breaker.record.mode(at: clock.instant) == .observe
  }

  /// Shows waiting callers the changes of a transaction of this process.
  ///
  /// If the breaker has opened, they leave at once; if its limit was raised, or the mode observes, they
  /// begin.
  /// If a hold has ended, the first in the queue goes.
  func tellWaiters(
    on cell: Cell, under limit: CellLimit?, _ known: Known, after before: Known?,
    _ events: [BreakerEvent]
  ) {
    // Before any caller is woken that could take its room.
    adoptNow(of: cell)
    // A process that has made no call under the limit tells waiting callers as well.
    if let slots = (limit ?? cell.limit?.limit)?.slots {
      let news = NewsForWaiters(after: before, known, events)
      if news.letsNextGoFirst {
        if slots.isAwaited { slots.wakeFirst() }
      } else if !known.letsCallersWait {
        if !news.isNothing { slots.wakeAll() }
      } else if news.wereHeld, slots.isAwaited {
        slots.wakeFirst()
      }
    }
  }

  /// Looks after the slots and their owners, once a second.
  func lookAfterLimits() {
    guard isAvailable else { return }
    // Before anything that may wait for the store: other threads begin calls meanwhile.
    lookAfterSlots()
    for cell in look({ $0.knowledge.limited }) {
      guard let limit = cell.limit?.limit else { continue }
      limit.slots.lookAround()
      recordLostCalls(of: cell, under: limit)
    }
  }

  /// Looks after the slots for a caller that waits, at most once a second.
  ///
  /// All threads of this process may wait, and then no call does the rounds. This waits for no store, and only
  /// for a moment for a process that is creating the file of the slots.
  func lookAfterSlotsWhileWaiting() {
    let now = bootNanoseconds
    let due = nextLookAtSlots.load(ordering: .relaxed)
    guard now >= due, isAvailable else { return }
    let isMine = nextLookAtSlots.compareExchange(
      expected: due, desired: now + Self.roundNanoseconds, ordering: .relaxed
    ).exchanged
    if isMine { lookAfterSlots() }
  }

  /// Uses the slots that other processes use, and sends waiting callers there if the file was
  /// replaced.
  private func lookAfterSlots() {
    let limited = look { $0.knowledge.limited }
    guard !limited.isEmpty else { return }
    storage.lookAfterSlots()
    for cell in limited {
      let limit = cell.limit?.limit
      let (row, isLimiting) = look {
        ($0.knowledge[cell].row, $0.knowledge[cell].agreed?.policy.boundsCalls == true)
      }
      // Calls that are neither limited, held nor in a ramp take no room.
      guard let row, limit != nil || isLimiting, storage.slots(ofBreaker: row) !== limit?.slots
      else { continue }
      update { $0.knowledge.forget(cell) }
      // If the file is a copy, it has calls that no process will end.
      limit?.slots.wakeAll()
    }
  }

  /// Records the calls that were found lost, by this process or by one that could not record them.
  ///
  /// If the store cannot be written now, they stay beside the slots until a later call records them.
  ///
  /// - Returns: Whether there were any, and they were recorded.
  @discardableResult func recordLostCalls(of cell: Cell, under limit: CellLimit) -> Bool {
    guard mayRecordLostCalls(of: cell, under: limit) else { return false }
    do throws(StoreError) {
      try waiting { () throws(StoreError) in
        let done = try step(cell, orCreate: false) { draft in
          let lost = limit.slots.uncountedLosses(
            of: draft.breaker.id, in: draft.breaker.record.totals.lostCalls)
          if let lost, lost.calls > 0 { draft.lose(lost) }
          return lost
        }
        // Only now: until the commit, they may have to be recorded again.
        if let done, let lost = done.answer { limit.slots.noteCounted(lost) }
      }
    } catch {
      failed(error, of: cell)
      return false
    }
    return true
  }

  /// Whether calls were found lost that can be recorded now.
  func mayRecordLostCalls(of cell: Cell, under limit: CellLimit) -> Bool {
    limit.slots.hasUncountedLosses && isAvailable && !isAlone(cell)
  }
}
