internal import BreakerCore
internal import BreakerStore
internal import CHost

/// A call under a limit that may have been permitted from memory, with its room.
@frozen @usableFromInline package struct LimitedCall: Sendable {
  /// The word of the breaker if that permits the call, even if there is no room for it; 0 otherwise.
  @usableFromInline package let word: UInt64

  /// The room that the call has taken; 0 if it has none.
  @usableFromInline package let room: UInt64

  static let notPermitted = LimitedCall(word: 0, room: 0)

  @inlinable package init(word: UInt64, room: UInt64) {
    self.word = word
    self.room = room
  }

  @inlinable package var isPermitted: Bool { room != 0 }
}

/// The path of a call under a limit that finds a free slot: no lock, no system call, and nothing copied.
///
/// All other calls have a `Ticket`: a call of several units, a call inside of another one, and one whose
/// policy looks at how long calls take.
extension Breaker {
  /// Permits a call that the healthy path has not permitted.
  @usableFromInline func enterLimited(after call: HealthyCall) -> LimitedCall {
    engine.takeSlot(on: cell, claim, CellWord(bits: call.word))
  }

  /// Permits a call that the given ones may surround besides those of its thread.
  package func enterLimited(insideOf outers: OuterCalls) -> LimitedCall {
    engine.takeSlot(on: cell, claim, outers)
  }

  @usableFromInline func endLimited(_ call: LimitedCall) {
    let word = CellWord(bits: call.word)
    guard engine.isCurrent, engine.countSuccess(of: cell, since: 0, under: word) else {
      return end(call, .success)
    }
    // The outcome comes first, so that the next caller in this room knows of it.
    if let held = HeldSlot(bits: call.room) { engine.giveBack(held, on: cell) }
  }

  /// Counts the success of a call and gives back its room; false, and nothing has changed, if that
  /// takes more, such as waking callers that wait for the room.
  package func leaveLimited(_ call: LimitedCall) -> Bool {
    guard let held = HeldSlot(bits: call.room), cell.endsAlone(held), engine.isCurrent,
      engine.countSuccess(of: cell, since: 0, under: CellWord(bits: call.word))
    else { return false }
    engine.giveBack(held, on: cell)
    return true
  }

  /// Makes globals that Swift would make at the first call, which a child forked meanwhile could
  /// not.
  package static func prepareLimitedCalls() { CallNesting.prepare() }

  /// Reports the outcome of a call that does not end as most calls under a limit do.
  @inline(never) @usableFromInline func end(_ call: LimitedCall, _ outcome: CallOutcome) {
    end(Ticket(call), outcome)
  }
}

extension Engine {
  /// Permits a call from memory, and takes a slot for it, if nothing surrounds the call.
  @inline(__always) func takeSlot(
    on cell: Cell, _ claim: CallClaim, _ outers: OuterCalls
  ) -> LimitedCall {
    guard !isRoundDue(inSecond: second), isCurrent else { return .notPermitted }
    let word = cell.word
    guard outers.isEmpty || !cell.isUnderWay(outers) else { return .notPermitted }
    return takeSlot(on: cell, claim, word)
  }

  /// Takes a slot under a word of the cell that is current, in a second whose round has been done.
  @inline(__always) func takeSlot(
    on cell: Cell, _ claim: CallClaim, _ word: CellWord
  ) -> LimitedCall {
    guard word.permitsUntimedWithinLimit, claim.isOneOrdinaryUnit, CallNesting.isOutermost else {
      return .notPermitted
    }
    return LimitedCall(word: word.bits, room: cell.takeSlot()?.bits ?? 0)
  }
}
