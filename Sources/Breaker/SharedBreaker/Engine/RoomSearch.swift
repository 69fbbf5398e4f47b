internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// The search of a call for room: what it asks the slots, and what follows from the answers.
///
/// The call was permitted, or it waits for the end of a hold, and is permitted after that.
///
/// It waits for nothing itself, so threads and tasks search in the same way.
///
/// A search owns the ticket of its call until it hands the ticket out. Whatever else becomes of the ticket,
/// the search gives up its lease: it rejects the call, decides again, or is dropped because its caller was
/// cancelled or the store failed. Otherwise the lease would reject this call and all others until its
/// deadline.
struct RoomSearch: ~Copyable {
  private let engine: Engine
  private let request: Engine.Request
  private let cell: Cell
  private var ticket: Ticket
  private(set) var inForce: Engine.LimitInForce

  /// Whether the search owns the ticket, so that it gives up the lease if it does not hand it out.
  private var ownsTicket = true

  /// How much the call takes.
  private var claim: CallClaim

  /// The call of this process that it is inside of, if that has room here.
  private var outer: HeldSlot?

  /// Whether the call waits for the end of a hold, so that it has yet to be permitted.
  private var isHeld: Bool

  /// When a caller that waits gives up; nil if it never waits.
  private var latest: Int64?

  /// Its place in the order of arrival.
  private var standing = SlotWait.Standing()

  /// The permission that it gets as the first in the queue when a hold is over.
  private let permission = HeldPermission()
  private var looks = 0

  /// When the first of these looks was.
  private var firstLook: Int64 = 0

  /// How often in a second a call looks again at what has changed.
  private static let mostLooks = 8

  init(
    _ engine: Engine, for request: Engine.Request, _ permitted: Ticket?, of cell: Cell,
    under inForce: Engine.LimitInForce
  ) {
    let ticket = permitted ?? Ticket(.unknown)
    isHeld = permitted == nil
    self.engine = engine
    self.request = request
    self.cell = cell
    self.ticket = ticket
    self.inForce = inForce
    claim = request.claim
    if inForce.limit.isRated {
      // Such a call needs no room, but its turn under the rate.
      switch CallNesting.surroundings(on: inForce.limit.slots, besides: request.outers) {
      case .own(let surrounding): (claim.needsNoRoom, outer) = (true, surrounding)
      case .inherited: claim.needsNoRoom = true
      case .nothing: break
      }
    }
    let isImpatient = ticket.kind == .probe || request.isNamed
    let patience = isImpatient ? nil : inForce.limit.patience
    if let patience, !engine.isObserving(cell) {
      latest = SlotWait.end(ofAtMost: max(0, patience - request.waited))
    }
  }

  deinit {
    if ownsTicket { engine.giveUp(ticket, of: cell) }
    permission.close().map { engine.giveUp($0, of: cell) }
  }

  /// Gives up the call, also while the queue gets its permission.
  mutating func drop() {
    giveUp()
    permission.close().map { engine.giveUp($0, of: cell) }
  }

  /// When the caller gives up; nil if it does not wait.
  ///
  /// A probe never waits, even if its caller has waited before: it has a lease, and its time has begun.
  private var end: Int64? { ticket.kind == .probe ? nil : latest }

  /// Whether the caller waits for its turn.
  var isPatient: Bool { end != nil }

  /// How the caller waits; nil if it does not.
  var wait: SlotWait? {
    guard let end else { return nil }
    let (source, engine, cell, limit) = (ticket.source, engine, cell, inForce.limit)
    let (isOfStore, request, permission) = (source == .store, request, permission)
    return SlotWait(
      until: end,
      while: {
        // This caller may be the only one to notice a death, and its own turn may be far off.
        engine.recordLostCalls(of: cell, under: limit)
        guard engine.isStillPermitted(cell, from: source, until: end), !engine.isObserving(cell)
        else { return false }
        engine.lookAfterSlotsWhileWaiting()
        guard engine.areInUse(limit.slots, by: cell) else { return false }
        // A process that was killed may have changed the limit, and told no other one.
        engine.adoptNow(of: cell)
        // If a wait for the store was ended early meanwhile, this one goes on.
        Patience.forgetInterruption()
        return true
      }, isHeld: isHeld,
      heldUntil: { isOfStore ? engine.heldUntil(cell, for: request, permission) : nil },
      rampUntil: { engine.rampUntil(cell) },
      foundNoRoom: { permission.take().map { engine.giveUp($0, of: cell) } }, as: standing,
      asleep: request.asleep)
  }

  /// Asks the slots for room, and waits for it as `wait` says, or not at all without one.
  func enter(_ wait: SlotWait? = nil) -> SlotEntry {
    inForce.limit.slots.enter(claim, inForce.terms, wait: wait)
  }

  /// Asks the slots for room for a task, which waits without a thread.
  func queue(
    _ wait: SlotWait, _ answer: @escaping @Sendable (SlotEntry) -> Void
  ) -> QueuedCall {
    inForce.limit.slots.queue(claim, inForce.terms, wait: wait, answer)
  }

  /// Gives back the room of an answer that the caller does not use.
  func giveBack(_ entry: SlotEntry) {
    if case .begun(let held) = entry { inForce.limit.slots.end(held) }
  }

  /// The consequence of an answer of the slots.
  enum Step {
    case decided(Decision<Ticket>)

    /// There is another question.
    case asksAgain

    /// It takes reading or writing the store, and the caller must not wait. Nothing has changed.
    case hasToWait
  }

  /// Finds out what follows from an answer, and perhaps from the lost calls that were recorded with it.
  ///
  /// If it throws, the answer still holds: its room has to be given back, or used in a later step.
  mutating func step(
    after entry: SlotEntry, mayWait: Bool, hasRecorded: Bool = false
  ) throws(BreakerError) -> Step {
    switch entry {
    case .begun(let held) where isPatient && isEnding:
      inForce.limit.slots.end(held)
      return .decided(rejected())
    case .begun(let held):
      if permission.isThere {
        return try handOutPermission(holding: held, mayWait: mayWait)
      }
      if isHeld { return try decideAgain(holding: held, mayWait: mayWait) }
      // The breaker may have changed while the call waited, or by the lost calls that it has recorded.
      guard isPatient || hasRecorded, !engine.isUnchanged(cell, since: ticket) else {
        return .decided(.permitted(handedOut(holding: held)))
      }
      return try decideAgain(holding: held, mayWait: mayWait)
    case .busy:
      guard isPatient, !isEnding else { return .decided(rejected()) }
      if isHeld { return .decided(rejectedAsHeld()) }
      let isPermitted = ticket.source != .store || engine.isPermittedWithinLimit(cell)
      if !mayWait, !isPermitted { return .hasToWait }
      if engine.isStillPermitted(cell, from: ticket.source, until: 0) {
        return .decided(rejected())
      }
      return try decideAgain(mayWait: mayWait)
    case .unwanted:
      // The obstacle may be gone by now, and the caller's time is not over.
      return isEnding ? .decided(rejected()) : try decideAgain(mayWait: mayWait)
    case .outdated:
      guard mayWait else { return .hasToWait }
      noteLook()
      guard looks <= Self.mostLooks else { return .decided(rejected()) }
      let isLast = looks == Self.mostLooks
      guard let next = engine.limitNow(of: cell, after: inForce, isLast: isLast) else {
        // It has no limit any more.
        if isHeld { return try decideAgain(mayWait: mayWait, isLast: true) }
        return .decided(.permitted(handedOut()))
      }
      turn(to: next)
      return .asksAgain
    case .unseen:
      if permission.isThere { return try handOutPermission(holding: nil, mayWait: mayWait) }
      if isHeld {
        // An instant of a rate is not given back, so the call that has it begins now or never.
        return inForce.limit.isRated
          ? try decideAgain(holding: nil, mayWait: mayWait)
          : try decideAgain(mayWait: mayWait, isLast: true)
      }
      guard isPatient, !engine.isUnchanged(cell, since: ticket) else {
        // Permit the call, also if the table of owners is full: a limit must not stop work.
        return .decided(.permitted(handedOut()))
      }
      return try decideAgain(holding: nil, mayWait: mayWait)
    }
  }

  /// A step for a caller that may wait, and asks no more if it fails.
  mutating func lastStep(
    after entry: SlotEntry, hasRecorded: Bool
  ) throws(BreakerError) -> Step {
    do throws(BreakerError) {
      return try step(after: entry, mayWait: true, hasRecorded: hasRecorded)
    } catch {
      giveBack(entry)
      throw error
    }
  }

  private var isEnding: Bool { engine.isEnding.load(ordering: .sequentiallyConsistent) }

  /// The ticket, which belongs to the caller from now on.
  private mutating func handedOut(holding held: HeldSlot? = nil) -> Ticket {
    ownsTicket = false
    return placed(ticket, holding: held)
  }

  /// A ticket with the room of its call, which is its own or that of the call around it.
  private func placed(_ ticket: Ticket, holding held: HeldSlot?) -> Ticket {
    var ticket = ticket
    if let held {
      ticket.held = held
    } else if let outer {
      ticket.outer = outer
    }
    return ticket
  }

  /// Hands out the permission that the call got as the first in the queue, unless it is no longer good: its caller may
  /// have asked late.
  private mutating func handOutPermission(
    holding held: HeldSlot?, mayWait: Bool
  ) throws(BreakerError) -> Step {
    // Only then does a look at the lease read nothing.
    if !mayWait, !engine.isCurrent { return .hasToWait }
    guard let first = permission.take(), engine.isUnchanged(cell, since: first) else {
      return try decideAgain(holding: held, mayWait: mayWait)
    }
    giveUp()
    return .decided(.permitted(placed(first, holding: held)))
  }

  /// Gives up the lease of a probe that is not made.
  mutating func giveUp() {
    if ownsTicket { engine.giveUp(ticket, of: cell) }
    ownsTicket = false
    permission.take().map { engine.giveUp($0, of: cell) }
  }

  /// Goes on under another limit, in the queue of which the call has no place yet.
  private mutating func turn(to limit: Engine.LimitInForce) {
    if limit.limit.slots !== inForce.limit.slots { standing = SlotWait.Standing() }
    inForce = limit
  }

  /// Whether the call goes on waiting because of a hold, which may have begun meanwhile; one that has its room may go
  /// first once the hold is over.
  private mutating func waitsForHold(hasRoom: Bool) -> Bool {
    guard let latest, ticket.source == .store, !engine.isObserving(cell),
      let limit = engine.limitNow(of: cell),
      let held = engine.holdLeft(cell) ?? (hasRoom ? nil : engine.overFor(cell)),
      held < SlotWait.left(until: latest)
    else { return false }
    noteLook()
    guard looks < Self.mostLooks else { return false }
    (ticket, isHeld) = (Ticket(.unknown), true)
    turn(to: limit)
    return true
  }

  /// Rejects a call whose time is over, or for which the queue has no place, while the breaker holds calls.
  private mutating func rejectedAsHeld() -> Decision<Ticket> {
    guard let rejection = engine.holdingRejection(of: cell) else { return rejected() }
    giveUp()
    return .rejected(rejection)
  }

  /// Decides again on a call that has left the queue; the last time, it does not come back.
  private mutating func decideAgain(
    mayWait: Bool, isLast: Bool = false
  ) throws(BreakerError) -> Step {
    // First, or the call would be rejected by its own lease.
    giveUp()
    if mayWait { engine.readChanges(of: cell) }
    if !isLast, waitsForHold(hasRoom: false) { return .asksAgain }
    guard let decision = try newDecision(mayWait: mayWait) else { return .hasToWait }
    if case .rejected = decision, !isLast, waitsForHold(hasRoom: false) { return .asksAgain }
    guard case .permitted(let next) = decision, let limit = engine.limit(over: next, of: cell)
    else { return .decided(decision) }
    (ticket, ownsTicket, isHeld) = (next, true, false)
    turn(to: limit)
    // While the mode observes, no call waits.
    if engine.isObserving(cell) { latest = nil }
    noteLook()
    return looks < Self.mostLooks ? .asksAgain : .decided(rejected())
  }

  /// The decision on a call that has waited; a process that has ended meanwhile makes none.
  private func newDecision(mayWait: Bool) throws(BreakerError) -> Decision<Ticket>? {
    if let ending = engine.options.processes.ending() { throw .store(ending) }
    return try engine.decide(request, on: cell, mayWait: mayWait)
  }

  private mutating func noteLook() {
    let now = engine.bootNanoseconds
    if looks == 0 || now - firstLook >= Engine.roundNanoseconds { (looks, firstLook) = (0, now) }
    looks += 1
  }

  /// Decides again on a call that has got its room after a wait.
  private mutating func decideAgain(
    holding held: HeldSlot?, mayWait: Bool
  ) throws(BreakerError) -> Step {
    giveUp()
    if mayWait { engine.readChanges(of: cell) }
    let slots = inForce.limit.slots
    // Another call may have been the first to go after the hold.
    if waitsForHold(hasRoom: true) {
      if let held { slots.end(held) }
      return .asksAgain
    }
    switch try newDecision(mayWait: mayWait) {
    case .permitted(let ticket)?: return .decided(.permitted(placed(ticket, holding: held)))
    case .rejected(let rejection)?:
      if let held { slots.end(held) }
      return waitsForHold(hasRoom: true) ? .asksAgain : .decided(.rejected(rejection))
    case nil: return .hasToWait
    }
  }

  /// Rejects a call for which there is no room.
  private mutating func rejected() -> Decision<Ticket> {
    let record = engine.lastKnown(cell).record(
      at: engine.clock.moment, isGone: engine.storage.isGone)
    if record.mode.mode == .observe {
      if !ticket.grant.wouldReject { cell.count(.oneWouldReject) }
      ticket.grant.wouldReject = true
      return .permitted(handedOut())
    }
    giveUp()
    let end = record.rampEnd(at: engine.clock.instant)
    let limit = inForce.limit
    let isRamp = limit.slots.isOnlyRamp(inTheWayOf: claim)
    if let end, isRamp || !limit.isLimiting && !limit.isRated {
      cell.count(.oneRamping)
      let rejection = Rejection(
        state: record.state, mode: record.mode.mode,
        retryAfter: .nanoseconds(
          max(end.since(engine.clock.instant), limit.slots.rateDelay(for: claim))),
        cause: .ramping)
      return .rejected(cell.spread(rejection))
    }
    if let wait = limit.slots.rateWait(for: claim) {
      cell.count(.oneOverRate)
      let rejection = Rejection(
        state: record.state, mode: record.mode.mode, retryAfter: .nanoseconds(wait), cause: .rate)
      return .rejected(cell.spread(rejection))
    }
    cell.count(.oneBusy)
    // When there will be room is unknown, but not before the rate lets the call begin.
    let delay = limit.slots.rateDelay(for: claim)
    let rejection = Rejection(
      state: record.state, mode: record.mode.mode,
      retryAfter: delay > 0 ? .nanoseconds(delay) : nil, cause: .busy)
    return .rejected(delay > 0 ? cell.spread(rejection) : rejection)
  }
}

/// Waiting for the turn of a call: a thread, or a task without one.
extension Engine {
  /// Finds room for a call that has been permitted, if there is any at once.
  ///
  /// - Returns: The decision; nil, and nothing has changed, if the call has to wait for its turn, or to read
  ///   which limit is in force.
  func findRoomAtOnce(
    for ticket: Ticket, under inForce: LimitInForce, _ request: Request, of cell: Cell
  ) throws(BreakerError) -> Decision<Ticket>? {
    if let ticket = begun(ticket, under: inForce, request, of: cell) { return .permitted(ticket) }
    var search = RoomSearch(self, for: request, ticket, of: cell, under: inForce)
    guard !search.isPatient else { return nil }
    let entry = search.enter()
    // An instant of a rate is not given back.
    let isKept = inForce.limit.isRated && entry.hasBegun
    if !isKept, mayRecordLostCalls(of: cell, under: inForce.limit) {
      // A call that may wait records them in its round, before it is made: it may hang as they did.
      search.giveBack(entry)
      letRoundBeDue()
      return nil
    }
    switch try search.step(after: entry, mayWait: false) {
    case .decided(let decision): return decision
    case .asksAgain, .hasToWait: return nil
    }
  }

  /// Finds room for a call that has been permitted, and waits for it if the policy says so.
  func findRoom(
    for ticket: Ticket?, under inForce: LimitInForce, _ request: Request, of cell: Cell
  ) throws(BreakerError) -> Decision<Ticket> {
    if let ticket = ticket.flatMap({ begun($0, under: inForce, request, of: cell) }) {
      return .permitted(ticket)
    }
    var search = RoomSearch(self, for: request, ticket, of: cell, under: inForce)
    while true {
      Patience.forgetInterruption()
      let entry = search.enter(search.wait)
      if search.isPatient, case .busy = entry, Patience.wasInterrupted {
        throw .store(.interruptedWaiting(for: cell.name))
      }
      let hasRecorded = recordLostCalls(of: cell, under: search.inForce.limit)
      switch try search.lastStep(after: entry, hasRecorded: hasRecorded) {
      case .decided(let decision): return decision
      case .asksAgain, .hasToWait: break
      }
    }
  }

  /// Finds room as `findRoom` does, and suspends the task while it waits.
  ///
  /// - Throws: `CancellationError` too, if the task is cancelled while it waits.
  nonisolated(nonsending) func findRoomInTurn(
    for ticket: Ticket?, under inForce: LimitInForce, _ request: Request, of cell: Cell
  ) async throws -> Decision<Ticket> {
    if let ticket = ticket.flatMap({ begun($0, under: inForce, request, of: cell) }) {
      return .permitted(ticket)
    }
    var search = RoomSearch(self, for: request, ticket, of: cell, under: inForce)
    while true {
      let entry: SlotEntry
      if let wait = search.wait {
        entry = await TaskTurn.wait(for: search, wait)
        if entry == .busy, Task.isCancelled { throw CancellationError() }
      } else {
        entry = search.enter()
      }
      let hasRecorded = recordLostCalls(of: cell, under: search.inForce.limit)
      switch try search.lastStep(after: entry, hasRecorded: hasRecorded) {
      case .decided(let decision): return decision
      case .asksAgain, .hasToWait: break
      }
    }
  }

  /// The ticket of a call that needs no room of its own, or gets it at once.
  func begun(
    _ ticket: Ticket, under inForce: LimitInForce, _ request: Request, of cell: Cell
  ) -> Ticket? {
    let slots = inForce.limit.slots
    switch CallNesting.surroundings(on: slots, besides: request.outers) {
    case .own(let outer):
      guard slots.beginsInside(inForce.terms) else { return nil }
      var ticket = ticket
      ticket.outer = outer
      return ticket
    case .inherited: return slots.beginsInside(inForce.terms) ? ticket : nil
    case .nothing: return slots.take(request.claim, inForce.terms).map { ticket.holding($0) }
    }
  }
}

/// The permission that a caller has got as the first in the queue after a hold, before it takes its room.
///
/// Only so can no other caller go first: the next one in the queue comes to its head when this one has both.
final class HeldPermission: Sendable {
  private struct State {
    var ticket: Ticket?
    var isClosed = false
  }

  private let state = Guarded(State())

  var isThere: Bool { state.withLock { $0.ticket != nil } }

  /// Keeps a permission; false if its caller has left.
  func keep(_ ticket: Ticket) -> Bool {
    state.withLock { state in
      if !state.isClosed { state.ticket = ticket }
      return !state.isClosed
    }
  }

  func take() -> Ticket? {
    state.withLock { state in
      defer { state.ticket = nil }
      return state.ticket
    }
  }

  /// Takes the permission for the last time.
  func close() -> Ticket? {
    state.withLock { state in
      defer { state = State(isClosed: true) }
      return state.ticket
    }
  }
}

/// The wait of one task for its turn.
private final class TaskTurn: Sendable {
  private struct State {
    var isCancelled = false
    var giveUp: (@Sendable () -> Void)?
  }

  private let state = Guarded(State())

  /// Suspends the task until it is told; a cancellation ends the wait at once.
  static nonisolated(nonsending) func wait(
    for search: borrowing RoomSearch, _ wait: SlotWait
  ) async -> SlotEntry {
    let turn = TaskTurn()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { caller in
        let call = search.queue(wait) { caller.resume(returning: $0) }
        switch call {
        case .answered(let entry): caller.resume(returning: entry)
        case .waiting(let giveUp): turn.begin(giveUp)
        }
      }
    } onCancel: {
      turn.cancel()
    }
  }

  private func begin(_ giveUp: @escaping @Sendable () -> Void) {
    let isCancelled = state.withLock { state in
      state.giveUp = giveUp
      return state.isCancelled
    }
    if isCancelled { giveUp() }
  }

  private func cancel() {
    let giveUp = state.withLock { state in
      state.isCancelled = true
      return state.giveUp
    }
    giveUp?()
  }
}

extension Ticket {
  /// This ticket with the room that its call has taken.
  fileprivate func holding(_ held: HeldSlot) -> Ticket {
    var ticket = self
    ticket.held = held
    return ticket
  }
}
