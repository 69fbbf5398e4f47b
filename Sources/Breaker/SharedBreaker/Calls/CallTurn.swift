internal import BreakerCore
internal import BreakerStore
internal import CHost
internal import Glibc

/// A call that waits for its turn without a thread, for a caller with an event loop of its own.
///
/// Its descriptor polls as readable when it is time to ask again. It may be one that the caller has made for many turns,
/// which the turn neither reads nor closes. One thread uses a turn at a time.
/// Unchecked because the compiler does not know that the lock guards what the dispatcher's thread changes.
package final class CallTurn: @unchecked Sendable {
  /// The answer to a caller.
  package enum Answer {
    case decided(Decision<Ticket>)

    /// It has its place in the queue.
    case waits

    /// The answer takes reading or writing the store, and the caller must not wait.
    case hasToWait

    /// It was decided earlier, or given up.
    case isOver
  }

  private enum State {
    case asking
    case waiting(giveUp: (@Sendable () -> Void)?)
    case answered(SlotEntry)
    case over
  }

  private let breaker: Breaker
  private let lock = Lock()
  private let forkDepth = ForkGuard.depth
  private var search: RoomSearch
  private var state = State.asking
  private var signal: Int32
  private let isShared: Bool
  private let isRetry: Bool

  /// A turn for a search, on a descriptor of the caller's if there is one; nil if the system has no descriptor left.
  fileprivate init?(
    _ breaker: Breaker, _ search: consuming RoomSearch, isRetry: Bool, on shared: Int32?
  ) {
    let isPatient = search.isPatient
    self.breaker = breaker
    self.search = search
    isShared = shared != nil
    self.isRetry = isRetry
    // A search that is not patient never waits.
    signal = isPatient ? shared ?? sb_flag() : -1
    if isPatient, signal < 0 { return nil }
  }

  deinit { end() }

  /// The descriptor to poll, until the turn is given up; nil in a child of the process that began it.
  package var descriptor: Int32? {
    let signal = lock.withLock { self.signal }
    return forkDepth == ForkGuard.depth && signal >= 0 ? signal : nil
  }

  /// Whether the caller will be told something else than that it waits.
  package var isAnswered: Bool {
    lock.withLock { if case .waiting = state { false } else { true } }
  }

  /// Finds out what has become of the call.
  ///
  /// - Parameter mayWait: Whether the caller may wait for a file or another process; it never waits for
  ///   its turn.
  /// - Returns: The answer to the caller.
  /// - Throws: `BreakerError.store` as ``Breaker/acquire(probeTimeout:isRetry:)`` does; the turn is over then, unless a wait
  ///   for the store was ended early.
  package func take(mayWait: Bool) throws(BreakerError) -> Answer {
    while true {
      switch lock.withLock({ state }) {
      case .over: return .isOver
      case .waiting: return .waits
      case .asking: ask()
      case .answered(let entry):
        lower()
        let (engine, cell, limit) = (breaker.engine, breaker.cell, search.inForce.limit)
        // The lost calls are recorded before this one is made, because it may hang as they did.
        // An instant of a rate is not given back, so a call that has one does not go for that.
        let isKept = limit.isRated && entry.hasBegun
        guard mayWait || isKept || !engine.mayRecordLostCalls(of: cell, under: limit) else {
          return .hasToWait
        }
        let hasRecorded = mayWait && engine.recordLostCalls(of: cell, under: limit)
        let step: RoomSearch.Step
        do throws(BreakerError) {
          step = try search.step(after: entry, mayWait: mayWait, hasRecorded: hasRecorded)
        } catch {
          if case .store(let why) = error, why.isInterrupted {
            // Nothing has changed, and a caller that polls is told so.
            raise()
          } else {
            search.giveBack(entry)
            become(.over)
          }
          throw error
        }
        switch step {
        case .decided(let decision):
          become(.over)
          return .decided(breaker.told(breaker.kept(decision, isRetry: isRetry)))
        case .asksAgain: become(.asking)
        case .hasToWait: return .hasToWait
        }
      }
    }
  }

  /// Gives up the place in the queue, or the room that was taken since, and closes the descriptor.
  package func end() {
    let before = lock.withLock {
      defer { state = .over }
      if signal >= 0, !isShared { close(signal) }
      signal = -1
      return state
    }
    // The place is the parent's, whose memory this is a copy of.
    guard forkDepth == ForkGuard.depth else { return }
    switch before {
    case .over: return
    case .asking, .waiting(giveUp: nil), .answered(.busy), .answered(.unwanted),
      .answered(.outdated), .answered(.unseen):
      break
    case .waiting(let giveUp?): giveUp()
    case .answered(.begun(let held)): search.inForce.limit.slots.end(held)
    }
    search.drop()
  }

  private func ask() {
    guard let wait = search.wait else { return become(.answered(search.enter())) }
    // The answer may come before the queue has returned.
    become(.waiting(giveUp: nil))
    let slots = search.inForce.limit.slots
    let call = search.queue(wait) { [self] entry in
      if !keeps(entry), case .begun(let held) = entry { slots.end(held) }
    }
    switch call {
    case .answered(let entry): become(.answered(entry))
    case .waiting(let giveUp):
      lock.withLock { if case .waiting = state { state = .waiting(giveUp: giveUp) } }
    }
  }

  /// Keeps the answer, and makes the descriptor readable; false if no caller waits for it any more.
  private func keeps(_ entry: SlotEntry) -> Bool {
    lock.withLock {
      guard case .waiting = state else { return false }
      state = .answered(entry)
      _ = sb_flag_raise(signal)
      return true
    }
  }

  private func raise() {
    if !isShared { _ = sb_flag_raise(signal) }
  }

  /// Makes the descriptor readable, because the caller has to ask again; false if there is none.
  fileprivate func becomesReadable() -> Bool { signal >= 0 && sb_flag_raise(signal) == 0 }

  private func lower() {
    if isShared { return }
    var count: UInt64 = 0
    _ = unsafe read(signal, &count, MemoryLayout<UInt64>.size)
  }

  private func become(_ state: State) { lock.withLock { self.state = state } }
}

extension Breaker {
  /// The first answer to a call that would wait without a thread.
  package enum TurnBeginning {
    case decided(Decision<Ticket>)
    case waits(CallTurn)

    /// The system has no descriptor left.
    case noDescriptor
  }

  /// Asks for the right to make one call, and for a turn if there is no room.
  ///
  /// - Parameters:
  ///   - mayWait: Whether the call may wait for a file or another process.
  ///   - isRetry: Whether the call is sent again.
  ///   - outers: The calls that surround this one.
  ///   - descriptor: An `eventfd` of the caller's that many turns share; nil for one of the turn's own.
  ///   - waited: How long the call has waited for room before, in nanoseconds.
  /// - Returns: The answer; nil if the call must not wait and the answer takes reading or writing the
  ///   store.
  /// - Throws: `BreakerError.store` as ``acquire(probeTimeout:isRetry:)`` does.
  package func beginTurn(
    mayWait: Bool, isRetry: Bool = false, insideOf outers: OuterCalls = OuterCalls(),
    on descriptor: Int32? = nil, waited: Int64 = 0
  ) throws(BreakerError) -> TurnBeginning? {
    if isRetry, let refusal = engine.retryRefusal(of: cell) {
      return .decided(.rejected(told(refusal)))
    }
    var request = request(probeTimeout: nil)
    request.outers = outers
    request.waited = waited
    if let ticket = engine.takeRoom(on: cell, claim, outers: outers) {
      return .decided(told(kept(.permitted(ticket), isRetry: isRetry)))
    }
    let search: RoomSearch
    switch try engine.begin(request, on: cell, mayWait: mayWait) {
    case .decided(let decision)?: return .decided(told(kept(decision, isRetry: isRetry)))
    case .looksForRoom(let ticket, let limit)?:
      if let ticket = ticket.flatMap({ engine.begun($0, under: limit, request, of: cell) }) {
        return .decided(told(kept(.permitted(ticket), isRetry: isRetry)))
      }
      search = RoomSearch(engine, for: request, ticket, of: cell, under: limit)
    case nil: return nil
    }
    guard let turn = CallTurn(self, search, isRetry: isRetry, on: descriptor) else {
      return .noDescriptor
    }
    switch try turn.take(mayWait: mayWait) {
    case .decided(let decision): return .decided(decision)
    case .waits: return .waits(turn)
    // It may have its room already, and an instant of a rate, which its next question finds.
    case .hasToWait where turn.becomesReadable(): return .waits(turn)
    case .hasToWait, .isOver: return nil
    }
  }

  /// The decision, with the time from which its call is measured; notifies the observer of a rejection.
  func told(_ decision: Decision<Ticket>) -> Decision<Ticket> {
    if case .rejected(let rejection) = decision { _ = told(rejection) }
    return decision.map(timed)
  }
}
