package import BreakerCore
internal import CHost

/// Breakers in the memory of one process: for the time that a store cannot be used, and for tests.
///
/// They are in the tables of a store, in a database of SQLite without a file. The first use creates it, because
/// most processes never lose their store.
@safe package final class MemoryStorage: BreakerStorage {
  private let clock: StoreClock
  private let program: String
  private let room: Int64
  private let judge: OwnerJudge

  /// The database, which the child of a fork goes on with as its own copy.
  ///
  /// It has no file whose locks the child could lose, and it is at rest during the fork.
  private let database = Guarded<Connection?>(nil)
  private let databases = IdleDatabases.shared
  private let relay = MemoryRelay()
  private let slotMemory: SlotMemory

  // The pointer never changes, and its target is set atomically.
  private nonisolated(unsafe) let counter: UnsafeMutablePointer<UInt64>
  package let listeners = Listeners(path: nil)

  package init(
    clock: StoreClock, program: String, room: Int? = nil,
    isGone: @escaping @Sendable (ProcessIdentity) -> Bool
  ) {
    self.clock = clock
    self.program = program
    self.room = room.map { Int64($0) } ?? StoreRoom.usualBreakers
    judge = OwnerJudge(isGone: isGone)
    slotMemory = SlotMemory(judge: judge, clock: clock)
    unsafe counter = .allocate(capacity: 1)
    unsafe counter.initialize(to: 1)
  }

  deinit { unsafe counter.deallocate() }

  /// Gives the database back; the owner calls it at its end, while forks still wait for the lock of this storage.
  ///
  /// Later a fork could find a lock of SQLite held, and its child would wait for that forever.
  package func end() {
    database.withLock { database in
      if let unused = database { databases.giveBack(unused) }
      database = nil
    }
  }

  package var fingerprint: UnsafePointer<UInt64> { unsafe UnsafePointer(counter) }
  package var sharedCounters: CounterPage? { nil }

  /// This process, computed each time, because a fork makes another one.
  private var user: StoreUser {
    StoreUser(HistoryAuthor(pid: ProcessTable.ownPid, program: program))
  }

  package func slots(ofBreaker id: Int64, forCalls calls: Int) -> SlotBlock? {
    slots(ofBreaker: id, as: Self.onlyProcess)
  }

  /// The slots of a breaker that stands in for one of another storage.
  package func slots(ofBreakerNamed name: String) -> SlotBlock? {
    slotMemory.block(of: .name(name), as: Self.onlyProcess)
  }

  /// The calls under way in these slots, and the callers that wait.
  package func slotState(ofBreakerNamed name: String) -> SlotState {
    slotMemory.state(of: .name(name))
  }

  /// The owner of all calls in a memory that only this process uses.
  private static var onlyProcess: ProcessIdentity {
    ProcessIdentity(pid: ProcessTable.ownPid, startTicks: 0, pidNamespace: 0)
  }

  /// The slots of a breaker as one process of the host uses them.
  package func slots(ofBreaker id: Int64, as process: ProcessIdentity) -> SlotBlock? {
    id > 0 ? slotMemory.block(of: .row(id), as: process) : nil
  }

  package func slotStates(ofBreakers ids: [Int64]) -> [Int64: SlotState] {
    Dictionary(ids.map { ($0, slotMemory.state(of: .row($0))) }, uniquingKeysWith: { $1 })
  }

  package func lifeline() -> Lifeline? { nil }
  package func isGone(_ owner: ProcessIdentity) -> Bool { judge.isGone(owner) }
  package func holdRelay() -> RelayHold? { holdRelay { false } }
  package func isRelayHeld() -> Bool { relay.isHeld }

  /// Takes the right to be the relay for a process that may end without giving it back.
  package func holdRelay(isGone: @escaping @Sendable () -> Bool) -> RelayHold? {
    relay.hold(isGone: isGone)
  }

  /// Lets the next caller find the room of processes that have just ended.
  package func letDeathsBeSeen() { slotMemory.letDeathsBeSeen() }

  /// Forgets the calls that were under way when the host went down.
  package func forgetCalls() { slotMemory.beginAgain() }

  package func lookAfterSlots() {}
  package func noteExit() {}

  package func open(mayCreate: Bool) {}
  package func checkIdentity() {}
  package func close(isDone: Bool) {}

  package func atFork(_ moment: ForkMoment) {
    switch moment {
    case .before:
      database.willFork()
      slotMemory.willFork()
      listeners.willFork()
      relay.willFork()
    case .after:
      relay.didFork()
      listeners.didFork()
      slotMemory.didFork()
      database.didFork()
    }
  }

  package func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    try database.withLock { database throws(StoreError) in
      let transaction = try reading(&database)
      var changes = try transaction.changes(since: revision)
      // No revision tells that the times of all breakers were carried over into another boot.
      changes.continuity &+= transaction.boot
      return changes
    }
  }

  package func read<Answer>(
    isLong: Bool, _ body: (ReadTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    // The lock keeps the state that is read as it is, so it takes no transaction.
    try database.withLock { database throws(StoreError) in try body(try reading(&database)) }
  }

  package func write<Answer>(
    wait: Wait, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?) {
    (try write(as: user, body), nil)
  }

  package func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    try transact(name, orCreate: orCreate, as: user, body)
  }
}

/// Transactions of a user.
extension MemoryStorage {
  /// Runs a body in one transaction of a user.
  package func write<Answer>(
    as user: StoreUser, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try commit(as: user, body).answer
  }

  /// Takes a step on a breaker for a user.
  package func transact<Answer>(
    _ name: String, orCreate: Bool, as user: StoreUser, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    var answer: Answer?
    let (taken, fingerprints) = try commit(as: user) { transaction throws(StoreError) in
      try transaction.take(name, orCreate: orCreate) { answer = body(&$0) }
    }
    guard let taken, let answer else { return nil }
    return Transacted(
      answer: answer, breaker: taken.breaker, events: taken.events, fingerprints: fingerprints)
  }

  /// Commits what a body writes, and wakes the listeners; the fingerprints are nil if nothing was written.
  private func commit<Answer>(
    as user: StoreUser, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, Fingerprints?) {
    var demands = CommitDemands()
    let done = try database.withLock { database throws(StoreError) in
      let connection = try opened(&database)
      let before = currentFingerprint()
      let answer = try commit(in: connection, as: user) { transaction throws(StoreError) in
        defer { demands = transaction.demands }
        return try body(transaction)
      }
      let after = currentFingerprint()
      return (answer, after == before ? nil : Fingerprints(before: before, after: after))
    }
    if demands.wakesListeners { listeners.wake() }
    return done
  }

  /// Commits what a body writes, under the lock, and shows whether it has written anything.
  private func commit<Answer>(
    in connection: Connection, as user: StoreUser,
    _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    let before = connection.writtenRows
    let answer = try connection.write { () throws(StoreError) in
      let transaction = WriteTransaction(
        on: connection, clock: clock, judge: judge, by: user, room: room)
      transaction.begin(at: try transaction.nextRevision())
      return try body(transaction)
    }
    if connection.writtenRows != before { showChange() }
    return answer
  }

  private func reading(_ database: inout Connection?) throws(StoreError) -> ReadTransaction {
    ReadTransaction(on: try opened(&database), clock: clock, judge: judge)
  }

  /// The database, with the boot noted in which the host is; under the lock.
  private func opened(_ database: inout Connection?) throws(StoreError) -> Connection {
    guard let known = database else {
      let taken = try databases.take(clock: clock)
      taken.header = try StoreHeader.noted(on: taken).header
      database = taken
      return taken
    }
    // Only the clock of a test begins another boot while the process lives.
    guard !clock.isSystem, let header = known.header, header.boot.id != clock.bootID else {
      return known
    }
    let terms = StoreHeader.Terms(clock: clock, file: header.file)
    known.header = try StoreHeader.agreed(on: known, terms, until: .max)
    showChange()
    return known
  }

  /// Shows that something has changed; under the lock.
  private func showChange() { unsafe sb_set(counter, currentFingerprint() &+ 1) }
}

/// Going on without a store.
extension MemoryStorage {
  /// Whether there is no database, and so nothing in it.
  package var isUnused: Bool { database.withLock { $0 == nil } }

  /// The breaker of that name; nil if there is none.
  package func find(_ name: String) -> StoredBreaker? {
    database.withLock { database in
      guard let connection = database else { return nil }
      do throws(StoreError) {
        return try ReadTransaction(on: connection, clock: clock, judge: judge).find(name)
      } catch {
        return nil
      }
    }
  }

  /// Takes a step on a breaker; nil if there is none.
  ///
  /// A breaker that is not there yet begins as another storage knew it. If SQLite has no memory, the step is taken all
  /// the same, because no call may fail for that, but nothing of it is kept.
  package func transact<Answer>(
    _ name: String, beginningAs known: StoredBreaker?, _ body: (inout BreakerDraft) -> Answer
  ) -> Transacted<Answer>? {
    if known == nil, isUnused { return nil }
    var answer: Answer?
    do throws(StoreError) {
      let (taken, _) = try commit(as: user) { transaction throws(StoreError) -> TakenStep? in
        if let taken = try transaction.take(name, orCreate: false, { answer = body(&$0) }) {
          return taken
        }
        guard let known else { return nil }
        try transaction.seed(known)
        return try transaction.take(name, orCreate: false) { answer = body(&$0) }
      }
      guard let taken, let answer else { return nil }
      return Transacted(answer: answer, breaker: taken.breaker, events: taken.events)
    } catch {
      guard let known = find(name) ?? known else { return nil }
      var draft = BreakerDraft(now: clock.moment, breaker: known, isGone: judge.isGone)
      return Transacted(answer: body(&draft), breaker: draft.breaker, events: draft.events)
    }
  }

  /// Forgets a breaker without an event.
  package func forget(_ name: String) {
    forget { transaction throws(StoreError) in
      if let found = try transaction.find(name) { try transaction.delete(found) }
    }
  }

  /// Forgets every breaker but those of some names.
  package func clear(keeping names: [String]) {
    // SQLite would keep the memory of rows that were deleted.
    guard !names.isEmpty else { return database.withLock { $0 = nil } }
    let kept = Set(names.map { NameBytes($0) })
    forget { transaction throws(StoreError) in
      for one in try transaction.list(beginningWith: "", in: nil)
      where !kept.contains(NameBytes(one.name)) {
        try transaction.delete(row: one.id)
      }
    }
  }

  private func forget(_ body: (WriteTransaction) throws(StoreError) -> Void) {
    database.withLock { database in
      guard let connection = database else { return }
      do throws(StoreError) {
        try commit(in: connection, as: user, body)
      } catch {
        // Nothing may stay that contradicts the store.
        database = nil
      }
    }
  }
}
