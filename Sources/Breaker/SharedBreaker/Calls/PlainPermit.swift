internal import BreakerCore
internal import BreakerStore

/// A permit as plain numbers, for a caller that cannot keep Swift values: the C library.
///
/// The caller makes sure that each permit is used once. A call that the healthy path permits has a
/// `HealthyCall` instead.
package struct PlainPermit: Sendable, Hashable {
  package var flags: UInt64 = 0
  package var word: UInt64 = 0
  package var start: Int64 = 0
  package var generation: Int64 = 0
  package var lease: Int64 = 0
  package var deadline: Int64 = 0
  package var breaker: Int64 = 0
  package var lineage: Int64 = 0
  package var forkDepth: UInt64 = 0

  /// The room that the call has taken of a limit, or that of the call which it is inside of; 0 if it
  /// needs none.
  package var room: UInt64 = 0

  package init() {}

  package static let probe: UInt64 = 1
  package static let hasStart: UInt64 = 2
  package static let hasDeadline: UInt64 = 4
  package static let wouldReject: UInt64 = 8
  package static let local: UInt64 = 16
  package static let unrecorded: UInt64 = 32

  /// The room is that of another call.
  @inlinable package static var inside: UInt64 { 64 }

  /// The call surrounds what its thread does.
  @inlinable @inline(__always) package static var surrounds: UInt64 { 128 }

  /// Only the word and the room mean anything: they are those of a `LimitedCall`.
  @inlinable @inline(__always) package static var limited: UInt64 { 256 }

  package func has(_ flag: UInt64) -> Bool { flags & flag != 0 }

  /// Whether the call has taken room itself.
  package var hasRoom: Bool { Self.hasRoom(room, flags: flags) }

  @inlinable package static func hasRoom(_ room: UInt64, flags: UInt64) -> Bool {
    room != 0 && flags & inside == 0
  }
}

/// Calls whose permits are numbers.
extension Breaker {
  /// Rejects a call from memory because the breaker is open, and notifies the observer.
  ///
  /// - Returns: How many nanoseconds the caller should wait; nil if only the store can decide.
  package func waitFromMemory() -> Int64? {
    guard let wait = engine.waitFromMemory(cell) else { return nil }
    if engine.options.observer != nil { _ = told(.whileOpen(for: wait)) }
    return wait
  }

  /// Asks for the right to make one call that the healthy path has not permitted, and notifies the
  /// observer of a rejection.
  ///
  /// - Parameters:
  ///   - mayWait: Whether the call may wait for a file, another process, or its turn.
  ///   - outers: The calls that surround this one.
  ///   - asleep: Runs a body in which the thread sleeps until its turn.
  /// - Returns: The decision; nil if the call must not wait and the decision takes reading or writing
  ///   the store, or a turn in the queue.
  /// - Throws: `BreakerError.store` as ``acquire(probeTimeout:)`` does.
  package func enter(
    mayWait: Bool, insideOf outers: OuterCalls = OuterCalls(),
    asleep: (@Sendable (() -> Void) -> Void)? = nil
  ) throws(BreakerError) -> Decision<PlainPermit>? {
    let decision = try decideCall(mayWait: mayWait, outers: outers, asleep: asleep)
    if case .rejected(let rejection)? = decision { _ = told(rejection) }
    return decision?.map { PlainPermit($0) }
  }

  /// The answer to a call that must be under no limit.
  package enum UnlimitedEntry {
    case decided(Decision<PlainPermit>)

    /// It is under a limit, and nothing has changed.
    case limited
  }

  /// Asks for the right to make one call if it is under no limit.
  ///
  /// - Parameter mayWait: Whether the call may wait for a file or another process.
  /// - Returns: The answer; nil if the call must not wait and the answer takes reading or writing the
  ///   store.
  /// - Throws: `BreakerError.store` as ``acquire(probeTimeout:)`` does.
  package func enterUnlimited(mayWait: Bool) throws(BreakerError) -> UnlimitedEntry? {
    if engine.isLimited(cell) { return .limited }
    let request = request(probeTimeout: nil)
    guard let decision = try engine.decide(request, on: cell, mayWait: mayWait) else { return nil }
    guard let (ticket, _) = engine.limit(over: decision, request, of: cell) else {
      return .decided(told(decision))
    }
    // This process did not know the breaker before.
    engine.giveUp(ticket, of: cell)
    return .limited
  }

  /// Reports how a call went; nil, and nothing has changed, if that takes reading or writing the store
  /// and the caller must not wait or its wait was ended early.
  package func leave(
    _ permit: PlainPermit, _ outcome: CallOutcome, elapsed: Duration?, mayWait: Bool
  ) -> ReportVerdict? {
    leave(Ticket(permit), outcome, elapsed: elapsed, mayWait: mayWait)
  }

  /// Reports how a healthy call went; nil in the same cases.
  package func leave(
    _ call: HealthyCall, _ outcome: CallOutcome, elapsed: Duration?, mayWait: Bool
  ) -> ReportVerdict? {
    leave(Ticket(call), outcome, elapsed: elapsed, mayWait: mayWait)
  }

  private func leave(
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
  package func giveBackRoom(of permit: PlainPermit) {
    if let held = Ticket(permit).held { engine.giveBack(held, on: cell) }
  }

  /// Renews the lease of a probe, as ``Permit/renew(for:)`` does.
  package func renew(_ permit: PlainPermit, for time: Duration?) throws(BreakerError) -> Bool {
    try renew(Ticket(permit), for: time)
  }
}

extension PlainPermit {
  init(_ ticket: Ticket) {
    let grant = ticket.grant
    if grant.kind == .probe { flags |= Self.probe }
    if ticket.start != nil { flags |= Self.hasStart }
    if grant.deadline != nil { flags |= Self.hasDeadline }
    if grant.wouldReject { flags |= Self.wouldReject }
    switch ticket.source {
    case .store: break
    case .local: flags |= Self.local
    case .none: flags |= Self.unrecorded
    }
    word = ticket.word.bits
    start = ticket.start?.nanoseconds ?? 0
    generation = grant.generation
    lease = grant.lease
    deadline = grant.deadline?.nanoseconds ?? 0
    breaker = ticket.breaker
    lineage = ticket.lineage
    forkDepth = ticket.forkDepth
    if ticket.outer != nil { flags |= Self.inside }
    room = (ticket.held ?? ticket.outer)?.bits ?? 0
  }
}

extension Ticket {
  init(_ permit: PlainPermit) {
    if permit.has(PlainPermit.limited) {
      self.init(LimitedCall(word: permit.word, room: permit.room))
      return
    }
    let has = permit.has
    let grant = PermitGrant(
      kind: has(PlainPermit.probe) ? .probe : .normal, generation: permit.generation,
      lease: permit.lease,
      deadline: has(PlainPermit.hasDeadline) ? Instant(nanoseconds: permit.deadline) : nil,
      wouldReject: has(PlainPermit.wouldReject))
    self.init(
      grant, breaker: permit.breaker, lineage: permit.lineage,
      from: has(PlainPermit.unrecorded) ? .none : has(PlainPermit.local) ? .local : .store)
    word = CellWord(bits: permit.word)
    start = has(PlainPermit.hasStart) ? Instant(nanoseconds: permit.start) : nil
    forkDepth = permit.forkDepth
    let room = HeldSlot(bits: permit.room)
    if has(PlainPermit.inside) { outer = room } else { held = room }
  }
}
