internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// While a call waits for the end of a hold, or in a ramp.
extension Engine {
  /// The limit in whose queue a call waits for the end of a hold; nil if there is no hold, or the call cannot or need
  /// not wait.
  ///
  /// - Throws: `BreakerError.store` if a wait for the store was ended early.
  func limitOfQueue(
    while request: Request, isHeldBy cell: Cell, mayWait: Bool
  ) throws(BreakerError) -> LimitInForce? {
    guard !request.isNamed, isAvailable, !isAlone(cell), !isPermittedWithinLimit(cell),
      !(isCurrent && cell.word.has(CellWord.permits))
    else { return nil }
    do throws(StoreError) {
      guard try isCurrent(mayWait: mayWait), try known(cell, mayWait: mayWait) != nil else {
        return nil
      }
    } catch {
      if error.isInterrupted { throw .store(error) }
      // The decision finds out whether the store fails.
      return nil
    }
    guard let limit = limitNow(of: cell), let patience = limit.limit.patience,
      !isObserving(cell),
      let left = holdLeft(cell) ?? overFor(cell),
      left <= max(0, patience.subtractingSaturating(request.waited)),
      case .nothing = CallNesting.surroundings(on: limit.limit.slots, besides: request.outers)
    else { return nil }
    return limit
  }

  /// How many nanoseconds a breaker still holds calls, and 0 while another one goes first; nil if it does not hold
  /// them, as far as memory tells.
  func holdLeft(_ cell: Cell) -> Int64? {
    guard let known = look({ $0.knowledge[cell].known }), known.exists,
      case .rejected(let rejection) = assess(known), rejection.cause == .held
    else { return nil }
    return known.holdLeft(at: clock.instant)
  }

  /// Zero if a hold is over and no call has gone first yet: only the first in the queue may.
  func overFor(_ cell: Cell) -> Int64? {
    guard let known = look({ $0.knowledge[cell].known }), known.exists,
      known.breaker.record.state == .closed, known.breaker.record.holds.hold != nil,
      case .undecided = assess(known)
    else { return nil }
    return 0
  }

  /// The rejection by a hold, which is counted; nil if there is none, as far as memory tells.
  func holdingRejection(of cell: Cell) -> Rejection? {
    guard let known = look({ $0.knowledge[cell].known }), known.exists,
      case .rejected(let rejection) = assess(known), rejection.cause == .held
    else { return nil }
    cell.countRejection(isHeld: true)
    return cell.spread(rejection)
  }

  /// Until when the first in the queue does not begin, on the monotonic clock; nil if it may.
  ///
  /// What other processes have changed is read first. If a hold is over, the caller gets its permission here, so that
  /// it goes first while it still is at the head of the queue. If the store cannot be read, callers that are held as far
  /// as memory tells go on waiting, and any other one takes its room and decides as callers do without the store.
  func heldUntil(_ cell: Cell, for request: Request, _ permission: HeldPermission) -> Int64? {
    if isPermittedWithinLimit(cell) || permission.isThere { return nil }
    // Such a caller is sent away.
    if isEnding.load(ordering: .sequentiallyConsistent) { return nil }
    guard isAvailable, !isAlone(cell), readChanges(of: cell) else {
      let known = lastKnown(cell)
      guard known.exists, case .rejected(let rejection) = assess(known),
        let end = heldUntil(rejection)
      else { return nil }
      return min(end, SlotWait.end(ofAtMost: Self.pauseOfReaders))
    }
    // Before the caller takes room: the process that has begun a ramp may have been killed before it put it in force.
    adoptNow(of: cell)
    guard let known = look({ $0.knowledge[cell].known }), known.exists else { return nil }
    switch assess(known) {
    case .permitted: return nil
    case .rejected(let rejection): return heldUntil(rejection)
    case .undecided:
      guard known.breaker.record.state == .closed else { return nil }
      do throws(BreakerError) {
        switch try decide(request, on: cell) {
        case .permitted(let ticket):
          if !permission.keep(ticket) { giveUp(ticket, of: cell) }
          return nil
        case .rejected(let rejection): return heldUntil(rejection)
        }
      } catch {
        return nil
      }
    }
  }

  /// When the ramp ends that keeps the first in the queue from beginning, on the monotonic clock, or when to ask again;
  /// nil if the breaker is in none.
  ///
  /// If its time is over, this ends it: all callers may wait in the queue, so that no other one comes who would.
  func rampUntil(_ cell: Cell) -> Int64? {
    guard isAvailable, !isAlone(cell), readChanges(of: cell) else {
      return SlotWait.end(ofAtMost: Self.pauseOfReaders)
    }
    let breaker = lastKnown(cell).breaker
    // A policy that has lost the word ends it too.
    let isUnwanted = breaker.policy.rampUp == nil && breaker.record.rampUntil != nil
    guard isUnwanted || breaker.ramp != nil else { return nil }
    let left = isUnwanted ? 0 : breaker.ramp?.since(clock.instant) ?? 0
    if left > 0 { return waitOnMonotonicClock(left) }
    do throws(StoreError) {
      try waiting(.brief) { () throws(StoreError) in
        // Every step begins with what time alone does to a record.
        _ = try step(cell, orCreate: false) { _ in }
      }
    } catch {
      // So short a wait for others shows nothing about the store; the caller asks again.
      if !error.isOfOthers { failed(error, of: cell) }
      return SlotWait.end(ofAtMost: Self.pauseOfReaders)
    }
    return SlotWait.end(ofAtMost: Self.pauseOfOtherClock)
  }

  /// Another clock may be set forward at any time, and wakes no thread then.
  private func waitOnMonotonicClock(_ wait: Int64) -> Int64 {
    SlotWait.end(ofAtMost: isSystemClock ? wait : min(wait, Self.pauseOfOtherClock))
  }

  private func heldUntil(_ rejection: Rejection) -> Int64? {
    guard rejection.cause == .held, let wait = rejection.retryAfter?.inNanoseconds else {
      return nil
    }
    return waitOnMonotonicClock(wait)
  }

  /// Reads what other processes have changed, unless it is known; false if that takes long, or fails.
  @discardableResult func readChanges(of cell: Cell) -> Bool {
    do throws(StoreError) {
      return try waiting(.brief) { () throws(StoreError) in
        _ = try isCurrent(mayWait: true)
        _ = try known(cell)
        return true
      }
    } catch {
      return false
    }
  }

  /// How often a caller looks at a clock that is not the system's, and how soon again after a reading that took long.
  private static let pauseOfOtherClock: Int64 = 5_000_000
  private static let pauseOfReaders: Int64 = 50_000_000
}

extension Known {
  /// How many nanoseconds a hold still lasts; 0 if it is over, or there is none.
  func holdLeft(at now: Instant) -> Int64 {
    breaker.record.holds.hold?.remaining(at: now) ?? 0
  }
}
