@_spi(Relay) package import BreakerCore

/// Where breakers are kept: one transaction at a time, each of them whole or not at all.
///
/// The SQLite file is one such storage and the memory of a process is another. `WriteTransaction` applies the
/// rules of a store in both.
package protocol BreakerStorage: AnyObject, Sendable {
  /// Where one load tells whether anything changed; the address is good as long as the storage.
  ///
  /// Zero means that nothing is known, so every call has to ask what changed. Load it before you read
  /// the rows that it vouches for (rule of order 4).
  var fingerprint: UnsafePointer<UInt64> { get }

  /// The tasks that wait for events of any process.
  var listeners: Listeners { get }

  /// The counters that processes share; nil if there are none.
  var sharedCounters: CounterPage? { get }

  /// The slots of a breaker, with room for the instants of a rate of so many calls; nil if it can have none now.
  func slots(ofBreaker id: Int64, forCalls calls: Int) -> SlotBlock?

  /// The calls under way on breakers with a limit, and the callers that wait, as far as both are
  /// known.
  func slotStates(ofBreakers ids: [Int64]) -> [Int64: SlotState]

  /// Uses other slots from now on if those in use were replaced or deleted.
  func lookAfterSlots()

  /// Notes that this process loses no call that is still under way when it ends, however it ends.
  func noteExit()

  /// The lifeline of this process, to be named in a lease or claim that it is about to write; nil if
  /// it cannot have one here.
  func lifeline() -> Lifeline?

  /// Whether the owner of a lease or a claim has certainly ended.
  func isGone(_ owner: ProcessIdentity) -> Bool

  /// Takes the right to be the relay of the store; nil if another process has it.
  func holdRelay() throws(StoreError) -> RelayHold?

  /// Whether a relay works on the store.
  func isRelayHeld() throws(StoreError) -> Bool

  /// Makes sure that the storage can be used, and creates it if it does not exist.
  func open(mayCreate: Bool) throws(StoreError)

  /// Forgets what is open if the file it belongs to was replaced or deleted.
  ///
  /// - Throws: Why that is not possible yet; do not use the replaced file meanwhile.
  func checkIdentity() throws(StoreError)

  /// Closes everything; the next use opens it again.
  ///
  /// With `isDone`, it also leaves the file in the state that is best for the next process.
  func close(isDone: Bool)

  /// Takes the storage's locks before a fork, so that it is at rest, and gives them back after it.
  func atFork(_ moment: ForkMoment)

  /// Everything that changed after a revision, for all breakers at once.
  ///
  /// Without a revision, it only returns the newest one.
  func changes(since revision: Int64?) throws(StoreError) -> StoreChanges

  /// Reads the storage as it stands at one moment.
  ///
  /// A long reading never delays a writer.
  func read<Answer>(
    isLong: Bool, _ body: (ReadTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer

  /// Runs `body` in one transaction; if it throws, nothing has changed.
  ///
  /// The body may run again, after its first transaction was rolled back.
  ///
  /// - Returns: The answer of the body, and why what it wrote, which every process sees, may not
  ///   survive a power cut.
  func write<Answer>(
    wait: Wait, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?)

  /// Reads a breaker, lets `body` decide, and writes what it decided, in one transaction.
  ///
  /// Threads that call it at the same time share a transaction, each seeing what those before it
  /// have decided. The clock is read once, inside. If there is no such breaker, `body` gets a new one
  /// where `orCreate` says so; otherwise it is not called, and the answer is nil.
  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>?
}

/// The two moments at which a storage has something to do about a fork.
package enum ForkMoment: Sendable {
  case before

  /// In the parent and in the child.
  case after
}

/// Reading.
extension BreakerStorage {
  /// A number that differs from the last one loaded if anything has changed since.
  package func currentFingerprint() -> UInt64 { unsafe WALIndexPage.load(fingerprint) }

  /// The slots of a breaker; nil if it can have none now.
  package func slots(ofBreaker id: Int64) -> SlotBlock? { slots(ofBreaker: id, forCalls: 0) }

  /// The breaker of that name, or nil if there is none.
  package func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    try read(isLong: false) { place throws(StoreError) in try place.find(name) }
  }

  /// The breakers with names that begin with a text, by name.
  ///
  /// With a state, it returns candidates; read each one for its current state.
  package func list(
    beginningWith prefix: String, in state: BreakerState?
  ) throws(StoreError) -> [ListedBreaker] {
    try read(isLong: true) { place throws(StoreError) in
      try place.list(beginningWith: prefix, in: state)
    }
  }

  /// Some breakers as they stand at one moment, in the order asked for; nil for one that is gone.
  package func read(
    _ listed: some Collection<ListedBreaker>
  ) throws(StoreError) -> [StoredBreaker?] {
    try read(isLong: true) { place throws(StoreError) in
      var breakers: [StoredBreaker?] = []
      breakers.reserveCapacity(listed.count)
      for one in listed { breakers.append(try place.find(one)) }
      return breakers
    }
  }

  /// The policies that code has declared for a breaker.
  package func declarations(of name: String) throws(StoreError) -> [StoredDeclaration] {
    try read(isLong: false) { place throws(StoreError) in try place.declarations(of: name) }
  }

  /// The newest `limit` events after an instant, oldest first.
  package func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) throws(StoreError) -> [RecordedEvent] {
    try read(isLong: false) { place throws(StoreError) in
      try place.history(of: name, sinceMilliseconds: sinceMilliseconds, limit: limit)
    }
  }

  /// The oldest `limit` events after one, in the order in which they happened.
  package func events(
    after id: Int64, of name: String?, limit: Int
  ) throws(StoreError) -> EventBatch {
    // A process that only listens makes no calls, which would check the file.
    try checkIdentity()
    return try read(isLong: false) { place throws(StoreError) in
      try place.events(after: id, of: name, limit: limit)
    }
  }

  /// Where the healthy calls of a breaker are counted; nil if it has no counters, or has lost them.
  package func counters(of breaker: StoredBreaker) -> Counters? {
    sharedCounters?.counters(of: breaker)
  }

  /// A breaker that was read before, with what has been counted since.
  package func upToDate(_ breaker: StoredBreaker, at now: Instant) -> StoredBreaker {
    var breaker = breaker
    sharedCounters?.takeIn(to: &breaker, at: now)
    return breaker
  }
}

/// Writing.
extension BreakerStorage {
  /// Changes several breakers, and makes those that are not there, in one transaction.
  package func transact(
    together steps: [NamedStep], mustBeNew: Bool
  ) throws(StoreError) -> TransactedTogether {
    var (done, syncError) = try write(wait: .usual) { place throws(StoreError) in
      try place.take(together: steps, mustBeNew: mustBeNew)
    }
    done.syncError = syncError
    return done
  }

  /// Deletes a breaker, if it is still the version asked for.
  package func delete(
    _ name: String, ifStill version: StoredVersion?
  ) throws(StoreError) -> Deletion {
    let (isDeleted, syncError) = try write(wait: .usual) { place throws(StoreError) in
      try place.delete(name, ifStill: version)
    }
    return Deletion(isDeleted: isDeleted, syncError: syncError)
  }

  /// Deletes a breaker, whatever it has come to; false if there was none.
  package func delete(_ name: String) throws(StoreError) -> Bool {
    try delete(name, ifStill: nil).isDeleted
  }

  /// Applies what a process reports about a hook and asks for, and returns what it has to do now.
  package func answer(_ request: HookRequest) throws(StoreError) -> HookTurn {
    try checkIdentity()
    // Usually another process has the event already, and there is nothing to write.
    let seen = try read(isLong: false) { place throws(StoreError) in
      try place.change(by: request)
    }
    guard seen.hasChanged else { return seen.turn }
    return try write(wait: .usual) { place throws(StoreError) in
      try place.answer(request)
    }.answer
  }

  /// Proves by a write that the storage can be written again.
  package func proveWritable() throws(StoreError) {
    _ = try write(wait: .brief) { place throws(StoreError) in try place.proveWritable() }
  }
}

/// The fleet.
extension BreakerStorage {
  /// The store's knowledge of its fleet; nil if no relay has ever worked on it.
  package func fleet() throws(StoreError) -> StoredFleet? {
    try checkIdentity()
    return try read(isLong: false) { place throws(StoreError) in try place.fleet() }
  }

  /// The latest commands of the fleet, one for each aspect of each breaker.
  package func fleetOrders() throws(StoreError) -> [FleetOrder] {
    try checkIdentity()
    return try read(isLong: false) { place throws(StoreError) in
      let now = place.now
      return try place.registers(of: nil).map(\.order).filter { !$0.isForgotten(at: now) }
    }
  }

  /// The oldest commands that the relay has yet to publish.
  package func pendingOrders(limit: Int) throws(StoreError) -> [PendingOrder] {
    try checkIdentity()
    return try read(isLong: false) { place throws(StoreError) in
      try place.pendingOrders(of: nil, limit: limit)
    }
  }

  /// The latest commands to a breaker, one for each aspect, and those that have yet to go out.
  package func fleetOrders(
    to name: String
  ) throws(StoreError) -> (registers: [FleetRegister], pending: [PendingOrder]) {
    try checkIdentity()
    return try read(isLong: false) { place throws(StoreError) in
      (try place.registers(of: name), try place.pendingOrders(of: name, limit: .max))
    }
  }

  /// The latest commands that the breakers of this host do not follow, because their policies do not
  /// permit it.
  package func unfollowedOrders() throws(StoreError) -> [FleetOrder] {
    try checkIdentity()
    return try read(isLong: false) { place throws(StoreError) in
      try place.registers(of: nil).filter { !$0.isInForce }.map(\.order)
    }
  }

  /// Takes back the commands to a breaker that the relay has yet to publish.
  package func withdraw(from name: String) throws(StoreError) -> [FleetOrder] {
    let orders = try fleetOrders(to: name)
    if orders.pending.isEmpty { return [] }
    return try write(wait: .usual) { place throws(StoreError) in
      try place.withdraw(from: name)
    }.answer
  }

  /// Carries out the request of a relay; if nothing changes, nothing is written.
  ///
  /// Each transaction ends when its time is up. Before the next one, and before this returns, others
  /// have as much time to write.
  ///
  /// - Parameters:
  ///   - request: The request of the relay.
  ///   - report: Receives what each transaction has changed.
  /// - Returns: All that has changed.
  /// - Throws: Why a transaction was rolled back. The changes of earlier ones stay, and doing the
  ///   same again changes nothing more.
  package func carryOut(
    _ request: FleetRequest, reporting report: (FleetChanges) -> Void = { _ in }
  ) throws(StoreError) -> FleetChanges {
    try checkIdentity()
    // A relay asks often, and should not delay writers when there is nothing to do.
    let (known, hasPending) = try read(isLong: false) { place throws(StoreError) in
      (try place.fleet(counting: false), try place.hasPendingOrders())
    }
    var all = FleetChanges()
    all.commandCount = request.commandCount
    if let known, request.isMet(by: known, hasPending: hasPending) { return all }
    var request = request
    if request.commandCount == nil, request.news.contains(where: \.isCommand) {
      request.commandCount = try read(isLong: true) { place throws(StoreError) in
        try place.commandCount()
      }
    }
    all.rest = request
    while let part = all.rest {
      var began: Int64 = 0
      var (changes, syncError) = try write(wait: .usual) { place throws(StoreError) in
        began = Patience.monotonicNanoseconds()
        return try place.carryOut(part)
      }
      changes.syncError = syncError
      report(changes)
      all.add(changes)
      Patience.letOthersWrite(after: Patience.monotonicNanoseconds() - began)
    }
    return all
  }

  /// Forgets everything about the fleet; false if there was nothing to forget.
  package func leaveFleet() throws(StoreError) -> Bool {
    try write(wait: .usual) { place throws(StoreError) in try place.leaveFleet() }.answer
  }

  /// Distinguishes permits of this store from those of a store that it is a copy of.
  package func lineage() throws(StoreError) -> Int64 {
    try checkIdentity()
    // In a transaction to write, because only that agrees on the lineage of a copy.
    return try write(wait: .usual) { $0.lineage }.answer
  }
}

/// Closing, and forks.
extension BreakerStorage {
  /// Closes everything; the next use opens it again.
  package func close() { close(isDone: false) }

  package func willFork() { atFork(.before) }
  package func didFork() { atFork(.after) }
}

/// The changes in a storage since a point that the caller names.
package struct StoreChanges: Sendable {
  /// Differs from the last time if revisions alone do not tell all that has happened since.
  ///
  /// The file may be another one or an older copy, or a program that knows nothing of revisions,
  /// such as the sqlite3 shell, has written to it.
  package var continuity: Int64
  package var breakers: [StoredBreaker]

  /// The highest revision that these changes bring their reader up to.
  package var revision: Int64

  /// The revision of the latest deletion, which no row is left to tell of.
  package var deletedRevision: Int64

  /// Whether the file is of another lineage or boot than this process has taken it for.
  var isOfOtherHeader = false

  package init(
    continuity: Int64, breakers: [StoredBreaker], revision: Int64, deletedRevision: Int64
  ) {
    self.continuity = continuity
    self.breakers = breakers
    self.revision = revision
    self.deletedRevision = deletedRevision
  }
}

/// Consecutive events of a store.
package struct EventBatch: Sendable, Hashable {
  /// Identifies this store among all others.
  package var store: Int64

  /// The latest event of the store, whether or not it is in this batch; 0 if there is none.
  package var newest: Int64

  /// The oldest events that match the request.
  package var events: [RecordedEvent]
}

extension FleetNews {
  /// Whether it is a command, which may have to be remembered.
  fileprivate var isCommand: Bool {
    switch self {
    case .command, .remembered: true
    case .suspicion, .recovery, .hold: false
    }
  }
}
