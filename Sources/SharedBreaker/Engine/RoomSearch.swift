internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// The search of a permitted call for room: what it asks the slots, and what follows from the answers.
///
/// It waits for nothing itself, so threads and tasks search in the same way.
struct RoomSearch {
  private let engine: Engine
  private let request: Engine.Request
  private let cell: Cell
  private var ticket: Ticket
  fileprivate private(set) var inForce: Engine.LimitInForce

  /// When the caller gives up; nil if it does not wait.
  private let end: Int64?
  private var looks = 0

  /// How often a call looks at the policy again because others know a later one.
  private static let mostLooks = 8

  /// What the slots are asked.
  struct Question {
    var slots: any CallSlots
    var claim: CallClaim
    var terms: SlotTerms
    var wait: SlotWait?
  }

  init(
    _ engine: Engine, for request: Engine.Request, _ ticket: Ticket, of cell: Cell,
    under inForce: Engine.LimitInForce
  ) {
    self.engine = engine
    self.request = request
    self.cell = cell
    self.ticket = ticket
    self.inForce = inForce
    // A probe has a lease, and its time has begun.
    let timeout = ticket.grant.kind == .probe ? nil : inForce.limit.timeout
    end = timeout.map { SlotWait.end(ofAtMost: $0) }
  }

  /// Whether the caller waits for its turn.
  var isPatient: Bool { end != nil }

  var question: Question {
    let (asked, engine, cell, limit) = (ticket, engine, cell, inForce.limit)
    let wait = end.map { end in
      SlotWait(
        until: end,
        while: {
          // One who waits may be the only one to notice a death, and its own turn may be far off.
          engine.recordLostCalls(of: cell, under: limit)
          return engine.isStillPermitted(cell, as: asked)
        }, asleep: request.asleep ?? { $0() })
    }
    return Question(
      slots: inForce.limit.slots, claim: request.claim, terms: inForce.terms, wait: wait)
  }

  /// The decision that follows from an answer; nil if there is another question.
  mutating func decision(
    after entry: SlotEntry, hasRecorded: Bool = false
  ) throws(BreakerError) -> Decision<Ticket>? {
    switch entry {
    case .begun(let held)
    where isPatient && engine.isEnding.load(ordering: .sequentiallyConsistent):
      inForce.limit.slots.end(held)
      return rejected()
    case .begun(let held):
      // The breaker may have changed while the call waited, or by the lost calls that it has recorded.
      guard isPatient || hasRecorded, !engine.isUnchanged(cell, since: ticket) else {
        return .permitted(ticket.holding(held))
      }
      return try decideAgain(holding: held)
    case .busy:
      if isPatient, !engine.isEnding.load(ordering: .sequentiallyConsistent),
        !engine.isStillPermitted(cell, as: ticket)
      {
        let decision = try engine.decide(request, on: cell)
        guard case .permitted(let next) = decision,
          let limit = engine.limit(over: next, of: cell)
        else { return decision }
        (ticket, inForce) = (next, limit)
        looks += 1
        if looks < Self.mostLooks { return nil }
      }
      return rejected()
    case .outdated:
      looks += 1
      guard looks <= Self.mostLooks else { return rejected() }
      let isLast = looks == Self.mostLooks
      guard let next = engine.limitNow(of: cell, after: inForce, isLast: isLast) else {
        // It has none any more.
        return .permitted(ticket)
      }
      inForce = next
      return nil
    case .unknown:
      // The processes that take part are too many to be known: a limit is no reason to stop working.
      return .permitted(ticket)
    }
  }

  /// Gives back the lease of a probe that is not made.
  func giveUp() {
    guard ticket.grant.kind == .probe else { return }
    _ = engine.accept(.init(outcome: .ignored, ticket: ticket), of: cell)
  }

  /// Decides again on a call that has got its room after a wait.
  private func decideAgain(holding held: HeldSlot) throws(BreakerError) -> Decision<Ticket>? {
    let decision: Decision<Ticket>
    do throws(BreakerError) {
      decision = try engine.decide(request, on: cell)
    } catch {
      inForce.limit.slots.end(held)
      throw error
    }
    guard case .permitted(let ticket) = decision else {
      inForce.limit.slots.end(held)
      return decision
    }
    return .permitted(ticket.holding(held))
  }

  /// Rejects a call for which there is no room.
  private func rejected() -> Decision<Ticket> {
    let record = engine.lastKnown(cell).record(
      at: engine.clock.moment, isGone: engine.storage.isGone)
    if record.mode.mode == .observe {
      cell.count(.oneWouldReject)
      return .permitted(ticket)
    }
    giveUp()
    cell.count(.oneBusy)
    return .rejected(
      Rejection(state: record.state, mode: record.mode.mode, retryAfter: nil, cause: .busy))
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
    let question = search.question
    let entry = question.slots.enter(question.claim, question.terms)
    if mayRecordLostCalls(of: cell, under: inForce.limit) {
      // The round of a call that may wait records them, before it is made: it may hang as they did.
      if case .begun(let held) = entry { question.slots.end(held) }
      letRoundBeDue()
      return nil
    }
    return entry == .outdated ? nil : try search.decision(after: entry)
  }

  /// Finds room for a call that has been permitted, and waits for it if the policy says so.
  func findRoom(
    for ticket: Ticket, under inForce: LimitInForce, _ request: Request, of cell: Cell
  ) throws(BreakerError) -> Decision<Ticket> {
    if let ticket = begun(ticket, under: inForce, request, of: cell) { return .permitted(ticket) }
    var search = RoomSearch(self, for: request, ticket, of: cell, under: inForce)
    while true {
      let question = search.question
      let entry = question.slots.enter(question.claim, question.terms, wait: question.wait)
      if question.wait != nil, entry == .busy, Patience.wasInterrupted {
        search.giveUp()
        throw .store(.interruptedWaiting(for: cell.name))
      }
      let hasRecorded = recordLostCalls(of: cell, under: search.inForce.limit)
      if let decision = try search.decision(after: entry, hasRecorded: hasRecorded) {
        return decision
      }
    }
  }

  /// Finds room as `findRoom` does, and suspends the task while it waits.
  ///
  /// - Throws: `CancellationError` too, if the task is cancelled while it waits.
  nonisolated(nonsending) func findRoomInTurn(
    for ticket: Ticket, under inForce: LimitInForce, _ request: Request, of cell: Cell
  ) async throws -> Decision<Ticket> {
    if let ticket = begun(ticket, under: inForce, request, of: cell) { return .permitted(ticket) }
    var search = RoomSearch(self, for: request, ticket, of: cell, under: inForce)
    while true {
      let question = search.question
      let entry: SlotEntry
      if let wait = question.wait {
        entry = await TaskTurn.wait(for: question, wait)
        if entry == .busy, Task.isCancelled {
          search.giveUp()
          throw CancellationError()
        }
      } else {
        entry = question.slots.enter(question.claim, question.terms)
      }
      let hasRecorded = recordLostCalls(of: cell, under: search.inForce.limit)
      if let decision = try search.decision(after: entry, hasRecorded: hasRecorded) {
        return decision
      }
    }
  }

  /// The ticket of a call that needs no room of its own, or gets it at once.
  private func begun(
    _ ticket: Ticket, under inForce: LimitInForce, _ request: Request, of cell: Cell
  ) -> Ticket? {
    let slots = inForce.limit.slots
    if CallNesting.isInside(slots) { return ticket }
    return slots.take(request.claim, inForce.terms).map { ticket.holding($0) }
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
    for question: RoomSearch.Question, _ wait: SlotWait
  ) async -> SlotEntry {
    let turn = TaskTurn()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { caller in
        let call = question.slots.queue(question.claim, question.terms, wait: wait) {
          caller.resume(returning: $0)
        }
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
  /// The same ticket with the room that its call has taken.
  fileprivate func holding(_ held: HeldSlot) -> Ticket {
    var ticket = self
    ticket.held = held
    return ticket
  }
}
