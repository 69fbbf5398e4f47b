@_spi(Relay) internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// Going on without the store, and coming back to it.
extension Engine {
  /// Whether a call of a breaker uses the store, or goes on without it.
  ///
  /// If a store that failed is due to be tried again, a call that may wait tries it here, so it never
  /// gets `tryAgain`.
  func turn(of cell: Cell, mayWait: Bool) -> Availability.Turn {
    if mayWait { return trouble(of: cell).map { Availability.Turn.goWithout($0) } ?? .use }
    if isAvailable, !isAlone(cell) { return .use }
    let now = clock.coarseNanoseconds
    return look {
      let turn = $0.availability.nextTurn(at: now)
      if case .use = turn { return $0.availability.nextTurn(of: cell, at: now) }
      return turn
    }
  }

  /// The error that prevents the store from being used; nil if there is none.
  ///
  /// Once a second one call tries the store again. All others go on without it.
  func trouble() -> StoreError? {
    if isAvailable { return nil }
    let now = clock.coarseNanoseconds
    switch update({ $0.availability.turn(at: now) }) {
    case .use: return nil
    case .goWithout(let error): return error
    case .tryAgain:
      do throws(StoreError) {
        try waiting(.brief) { () throws(StoreError) in try comeBack() }
      } catch {
        if error.isInterrupted { update { $0.availability.giveTurnBack(of: now) } }
        return error
      }
      return nil
    }
  }

  /// The error that prevents a breaker from being shared; nil if there is none.
  func trouble(of cell: Cell) -> StoreError? {
    if let trouble = trouble() { return trouble }
    guard isAlone(cell) else { return nil }
    let now = clock.coarseNanoseconds
    switch update({ $0.availability.turn(of: cell, at: now) }) {
    case .use: return nil
    case .goWithout(let error): return error
    case .tryAgain:
      do throws(StoreError) {
        try waiting(.brief) { () throws(StoreError) in
          // Creates the breaker now, with its declared policy, so that the next call finds it.
          _ = try step(cell) { _ in }
          if let hold = holdAlone(of: cell) { try tell(hold, of: cell) }
        }
      } catch {
        // So short a wait for others shows nothing about the store, and this breaker goes on alone as before.
        if !error.isOfOthers { failed(error, of: cell) }
        return error
      }
      update { $0.availability.hasRoom(for: cell) }
      // From now on the store's breaker counts, not this process's own.
      local.forget(cell.name)
      return nil
    }
  }

  /// Tries the store that failed, and writes what could not be written without it.
  func comeBack() throws(StoreError) {
    do throws(StoreError) {
      try storage.checkIdentity()
      // A full disk can still be read, so only a write shows that there is room again.
      try storage.proveWritable()
      // First: what cannot be told now is told at the next attempt.
      for (cell, hold) in holdsAlone() { try tell(hold, of: cell) }
      // The store does not know the breakers that it has no room for. The counts of all others are
      // forgotten, because the store is the truth.
      local.clear(keeping: look { $0.availability.namesAlone })
      update { $0.recovered() }
    } catch {
      failed(error)
      throw error
    }
    do throws(StoreError) { try writeUnwrittenProbes() } catch {
      // The store is back, and the next round writes them.
    }
  }

  /// The holds that began or became longer while this process went on alone: a time that a resource has named is true,
  /// whether or not the store could take it.
  private func holdsAlone() -> [(Cell, Hold)] {
    look { Array($0.knowledge.cells.cells) }.compactMap { cell in
      holdAlone(of: cell).map { (cell, $0) }
    }
  }

  private func holdAlone(of cell: Cell) -> Hold? {
    guard let hold = local.find(cell.name)?.record.holds.hold,
      hold.remaining(at: clock.instant) > 0
    else { return nil }
    // The relay tells a store what other hosts were told.
    guard hold.host == nil else { return nil }
    // The store knows the others, or an operator has ended them there.
    let known = lastKnown(cell).breaker.record.holds.hold
    return known?.until == hold.until ? nil : hold
  }

  private func tell(_ hold: Hold, of cell: Cell) throws(StoreError) {
    let left = Duration.nanoseconds(hold.remaining(at: clock.instant))
    let wish = CallOutcome.Hold(.lasting(left), reason: hold.reason)
    let permit = PermitGrant(kind: .normal, generation: PermitGrant.unjudged)
    _ = try step(cell) { draft in
      draft.hold(
        for: wish, by: hold.isByHand ? .operator(hold.setBy ?? "") : .call(permit, by: hold.setBy))
    }
  }

  /// Goes on without the store: with one breaker if the store has no room for it, otherwise with all.
  ///
  /// A wait that was ended early shows nothing about the store, so it changes nothing.
  func failed(_ error: StoreError, of cell: Cell? = nil) {
    if error.isInterrupted { return }
    if error.mayEndByReopening { storage.close() }
    let now = clock.coarseNanoseconds
    update { $0.failed(error, of: cell, at: now) }
  }
}

/// Keeping up with what the store holds.
extension Engine {
  /// Makes the cells current; returns false if that takes reading the store and the caller must not
  /// wait.
  func isCurrent(mayWait: Bool) throws(StoreError) -> Bool {
    if isCurrent { return true }
    if mayWait { try refresh() }
    return mayWait
  }

  /// The breaker as the store holds it; nil if it has to be read and the caller must not wait.
  ///
  /// The caller has made the cells current.
  func known(_ cell: Cell, mayWait: Bool) throws(StoreError) -> Known? {
    try mayWait ? known(cell) : look { $0.knowledge[cell].known }
  }

  /// The breaker as the store holds it now.
  func known(_ cell: Cell) throws(StoreError) -> Known {
    while true {
      if !isCurrent { try refresh() }
      let (known, forgettings) = look { ($0.knowledge[cell].known, $0.knowledge.forgettings) }
      if let known { return known }
      let found = try storage.find(cell.name)
      if let known = learn(found, of: cell, after: forgettings) { return known }
    }
  }

  /// Takes over a reading of a breaker, unless a newer one is known.
  ///
  /// - Returns: The breaker as known then; nil if everything was forgotten since the reading began.
  private func learn(
    _ breaker: StoredBreaker?, of cell: Cell, after forgettings: Int64
  ) -> Known? {
    guard let breaker else {
      let now = clock.moment
      return update { $0.learnThatNobodyWrote(cell, after: forgettings, at: now) }
    }
    let read = read(breaker)
    return update { $0.learn(read, of: cell, after: forgettings, keeping: false) }
  }

  /// Reads the changes since the last time, for all breakers of this process at once.
  func refresh() throws(StoreError) {
    var events: [StoreEvent] = []
    try refreshes.run(unless: { isCurrent }) { () throws(StoreError) in
      // Rule of order 4: before the rows.
      let fingerprint = storage.currentFingerprint()
      let since = look { $0.knowledge.baseline }
      let changes = try storage.changes(since: since?.revision)
      let changed = changes.breakers.map { read($0) }
      events =
        change {
          $0.takeOver(changes, changed, since: since, fingerprint: fingerprint)
        }.1
    }
    // Rule of order 3: without the lock that refreshes share.
    events.forEach(tell)
  }

  private func read(_ breaker: StoredBreaker) -> Known {
    Known(
      breaker, exists: true, counters: storage.counters(of: breaker), limit: limit(of: breaker))
  }
}

/// Steps of the core on a breaker, each in one transaction.
extension Engine {
  /// Takes a step on a breaker of the store, and creates the breaker if there is none.
  @discardableResult
  func step<Answer>(
    _ cell: Cell, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> (answer: Answer, breaker: StoredBreaker) {
    guard let done = try step(cell, orCreate: true, body) else {
      preconditionFailure("a breaker that may be created was not created")
    }
    return done
  }

  /// Takes a step on a breaker of the store; nil if there is none and none may be created.
  ///
  /// The transaction also writes whatever this process has yet to write to the breaker.
  func step<Answer>(
    _ cell: Cell, orCreate: Bool, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> (answer: Answer, breaker: StoredBreaker)? {
    let (own, forgettings, before) = update { state in
      let own = OwnShare(
        declared: state.knowledge[cell].declaration?.words,
        isUndeclared: state.knowledge[cell].isUndeclared, pending: cell.takePending())
      return (own, state.knowledge.forgettings, state.knowledge[cell].known)
    }
    do throws(StoreError) {
      let done = try storage.transact(cell.name, orCreate: orCreate, wait: .usual) { draft in
        draft.add(own)
        return body(&draft)
      }
      guard let done else {
        update { $0.keep(own.pending, of: cell) }
        return nil
      }
      hasCommitted(done, of: cell, own, after: forgettings, before)
      return (done.answer, done.breaker)
    } catch {
      update { $0.keep(own.pending, of: cell) }
      throw error
    }
  }

  /// Takes over what a transaction has written, and tells the observer about it.
  func hasCommitted<Answer>(
    _ done: Transacted<Answer>, of cell: Cell, _ own: OwnShare, after forgettings: Int64,
    _ before: Known?
  ) {
    let known = read(done.breaker)
    let limit = cell.limit?.limit
    let others = done.others.map { read($0) }
    update { state in
      if own.isUndeclared, let words = own.declared {
        state.hasDeclared(words, for: cell, at: done.breaker.revision, after: forgettings)
      }
      _ = state.learn(known, of: cell, after: forgettings, keeping: true)
      // Rule of order 5: every cell, before the fingerprint that vouches for all of them.
      for other in others {
        guard let its = state.knowledge.cells[other.breaker.name] else { continue }
        _ = state.learn(other, of: its, after: forgettings, keeping: true)
      }
      if let commit = done.fingerprints {
        state.knowledge.goOn(over: commit, at: done.breaker.revision, after: forgettings)
      }
      state.availability.hasConnected()
      state.collect([(cell.name, done.events)], done.syncError)
    }
    tellWaiters(on: cell, under: limit, known, after: before, done.events)
  }

  /// Takes a step on the breaker that this process has for itself alone.
  func stepAlone<Answer>(
    _ cell: Cell, orCreate: Bool, _ body: (inout BreakerDraft) -> Answer
  ) -> (answer: Answer, breaker: StoredBreaker)? {
    let known = orCreate ? lastKnown(cell).breaker : nil
    guard let done = local.transact(cell.name, beginningAs: known, body) else { return nil }
    if !done.events.isEmpty { update { $0.collect(done.events, of: cell.name, isAlone: true) } }
    return (done.answer, done.breaker)
  }

  /// Declares the policy that code gives a breaker.
  ///
  /// If the store cannot be written now, the next write to the breaker includes the declaration.
  func declare(_ policy: BreakerPolicy, for cell: Cell) {
    let (words, forgettings) = update { ($0.declare(policy, for: cell), $0.knowledge.forgettings) }
    waiting {
      guard trouble(of: cell) == nil else { return }
      do throws(StoreError) {
        let known = try known(cell)
        guard !known.exists || known.breaker.words.code != words else {
          update {
            $0.hasDeclared(words, for: cell, at: known.breaker.revision, after: forgettings)
          }
          return
        }
        try step(cell) { _ in }
      } catch {
        failed(error, of: cell)
      }
    }
  }

  /// Takes several steps in one transaction, each on its own breaker, all of them or none.
  ///
  /// - Returns: The names that exist although they must be new. If there are any, nothing was changed.
  func step(
    together steps: [NamedStep], mustBeNew: Bool
  ) throws(StoreError) -> [String] {
    let done = try storage.transact(together: steps, mustBeNew: mustBeNew)
    update { $0.collect(done.events, done.syncError) }
    tellWaiters(on: done.breakers)
    return done.present
  }

  /// Deletes a breaker; false if there is none, or if it is no longer the version asked for.
  func delete(_ name: String, ifStill version: StoredVersion?) throws(StoreError) -> Bool {
    let done = try storage.delete(name, ifStill: version)
    update { $0.collect([], done.syncError) }
    return done.isDeleted
  }

  /// Carries out the request of a relay, and tells the observer about the changes.
  func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    try storage.carryOut(request) { done in
      update { $0.collect(done.events, done.syncError) }
      tellWaiters(on: done.breakers)
    }
  }

  /// Shows waiting callers the changes of a transaction to breakers that this process need not use.
  ///
  /// It creates no slots for breakers for which no caller waits.
  private func tellWaiters(on breakers: [StoredBreaker]) {
    guard !breakers.isEmpty else { return }
    let states = storage.slotStates(ofBreakers: breakers.map(\.id))
    for breaker in breakers where states[breaker.id]?.waiters.isEmpty == false {
      let known = read(breaker)
      if let limit = known.limit {
        limit.slots.adopt(LimitInForce(limit: limit, of: breaker).terms)
      }
      let slots = storage.slots(ofBreaker: breaker.id)
      if known.letsCallersWait { slots?.wakeFirst() } else { slots?.wakeAll() }
    }
  }
}

/// The meaning of a transaction for callers that wait.
struct NewsForWaiters {
  /// Whether calls were held before, or may have been.
  let wereHeld: Bool

  /// Whether calls are held as before.
  let isNothing: Bool

  /// Whether the call that went first after a hold has given its lease back, so that the next one goes.
  let letsNextGoFirst: Bool

  init(after before: Known?, _ now: Known, _ events: [BreakerEvent]) {
    let hold = before?.breaker.record.holds.hold
    let next = now.breaker.record.holds.hold
    wereHeld = before == nil || hold != nil || !events.isEmpty
    isNothing = next != nil && hold?.until == next?.until && events.isEmpty
    letsNextGoFirst = isNothing && hold?.firstLease != nil && next?.firstLease == nil
  }
}

/// The readings of what changed: one at a time, for all threads that wait for it.
final class Refreshes: Sendable {
  private let lock = Lock()
  private let failures = Atomic<Int64>(0)
  private let latest = Guarded<(error: StoreError, end: Int64)?>(nil)

  /// Reads, unless the thread before this one has done so meanwhile.
  ///
  /// - Throws: The error of the reading. A thread that has waited for another one that failed gets the same error,
  ///   unless the other one only had less time to wait.
  fileprivate func run(
    unless isDone: () -> Bool, _ read: () throws(StoreError) -> Void
  ) throws(StoreError) {
    let arrival = failures.load(ordering: .relaxed)
    guard lock.lock(until: Patience.end) else { throw .waitedInVain() }
    defer { lock.unlock() }
    if isDone() { return }
    if failures.load(ordering: .relaxed) != arrival, let (error, end) = latest.withLock({ $0 }),
      error.kind != .busy || end >= Patience.end
    {
      throw error
    }
    do throws(StoreError) { try read() } catch {
      // A thread whose wait was ended early has learned nothing that others could use.
      guard !error.isInterrupted else { throw error }
      latest.withLock { $0 = (error, Patience.end) }
      failures.add(1, ordering: .relaxed)
      throw error
    }
  }

  func willFork() {
    lock.lock()
    latest.willFork()
  }

  func didFork() {
    latest.didFork()
    lock.unlock()
  }
}
