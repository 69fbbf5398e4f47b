package import BreakerCore
internal import CSQLite
internal import Synchronization

/// Breakers in one SQLite file, which every process of the host shares.
///
/// Unchecked because the compiler does not know which of the two locks guards what.
package final class SQLiteStorage: BreakerStorage, @unchecked Sendable {
  package let path: String

  /// Why there is no path, if there is none.
  private let refusal: StoreError?

  /// Under the lock for writing.
  private var access: StoreAccess
  let lockTimeout: Duration
  let clock: StoreClock
  let program: String
  let mandate: HistoryAuthor.Mandate

  /// How many breakers the store may have before no other is made.
  let room: Int64

  // Taken in this order (rule of order 1). The open store is replaced under both, and used under
  // either.
  let writing = Lock()
  let reading = Lock()
  private(set) var store: OpenStore?

  /// The lineages of stores that were replaced, or have lost their logs, while they were open here.
  private var lost: Set<Int64> = []

  let steps = StepQueue()

  /// Under the lock for writing.
  var ownCommits = OwnCommits()
  let openings = Atomic<Int64>(0)
  private let nextLook = Atomic<Int64>(0)
  private var mayCreate = true
  let walIndex = WALIndexPage()
  let counterPage = CounterPage()
  package let listeners: Listeners
  package var owners: any StoreOwners { fileOwners }
  private let fileOwners: FileOwners

  package init(
    path: String, access: StoreAccess = StoreAccess(), lockTimeout: Duration = .milliseconds(500),
    clock: StoreClock = .system, program: String,
    mandate: HistoryAuthor.Mandate = .none, room: Int? = nil, refusal: StoreError? = nil
  ) {
    self.path = StorePath.absolute(path)
    self.refusal = refusal
    listeners = Listeners(path: self.path)
    fileOwners = FileOwners(of: self.path)
    self.access = access
    self.lockTimeout = lockTimeout
    self.clock = clock
    self.program = program
    self.mandate = mandate
    self.room = room.map { Int64($0) } ?? StoreRoom.usualBreakers
  }

  package func atFork(_ moment: ForkMoment) {
    switch moment {
    case .before:
      writing.lock()
      reading.lock()
      // No connection is ever carried over a fork (sqlite.org/howtocorrupt.html, 2.6): each side
      // opens its own at its next use.
      letGo(ofReplaced: false)
      counterPage.willFork()
      steps.willFork()
      listeners.willFork()
      fileOwners.willFork()
    case .after:
      fileOwners.didFork()
      listeners.didFork()
      steps.didFork()
      counterPage.didFork()
      reading.unlock()
      writing.unlock()
    }
  }

  package var sharedCounters: CounterPage? { counterPage }

  package var fingerprint: UnsafePointer<UInt64> {
    unsafe walIndex?.fingerprint ?? SQLiteStorage.nothingKnown
  }

  // Nobody writes to it after it was made.
  private nonisolated(unsafe) static let nothingKnown: UnsafePointer<UInt64> = {
    let zero = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
    unsafe zero.initialize(to: 0)
    return unsafe UnsafePointer(zero)
  }()

  package func open(mayCreate: Bool) throws(StoreError) {
    try Patience.bounded(by: deadline(of: .usual)) { () throws(StoreError) in
      try holding(writing) { () throws(StoreError) in
        self.mayCreate = mayCreate
        _ = try openedStore()
      }
    }
  }

  /// Under the lock for writing.
  func openedStore() throws(StoreError) -> OpenStore {
    if let store, store.isOfThisBoot(clock), !store.isStale { return store }
    if let refusal { throw refusal }
    return try holding(reading) { () throws(StoreError) in
      letGo(ofReplaced: false)
      let opened = try OpenStore(
        path: path, mayCreate: mayCreate, access: access, lockTimeout: lockTimeout,
        clock: clock, lost: lost)
      store = opened
      openings.add(1, ordering: .relaxed)
      useCounterPage(of: opened)
      // Rule of order 15: last, when everything else has been checked.
      _ = walIndex?.attach(to: opened.writer)
      return opened
    }
  }

  /// Opens what has to be open to write, and agrees with the store on the boot if that could not be
  /// done before.
  ///
  /// Under the lock for writing.
  func openedStoreToWrite() throws(StoreError) -> OpenStore {
    let store = try openedStore()
    if store.header.isAgreed { return store }
    return try holding(reading) { () throws(StoreError) in
      try store.agree(mayDoWithout: false)
      useCounterPage(of: store)
      return store
    }
  }

  /// Uses the counters of a store; those of another boot may only be replaced if all agree that it is.
  private func useCounterPage(of store: OpenStore) {
    let header = store.header
    guard header.isAgreed else { return }
    counterPage.use(
      .init(storePath: store.path, store: header.identity, boot: header.boot.number),
      // A store can be used without them, so some of the time is left for the store.
      atMost: .nanoseconds(min(lockTimeout.inNanoseconds, 3_600_000_000_000) / 2))
  }

  /// Under both locks.
  func letGo(ofReplaced wasReplaced: Bool) {
    access.earlier = store?.files.rights ?? access.earlier
    walIndex?.detach()
    ownCommits = OwnCommits()
    if let store, wasReplaced { lost.insert(store.header.lineage) }
    store = nil
  }

  package func close(isDone: Bool) {
    if isDone { finish() }
    writing.withLock {
      reading.withLock {
        // Those who come later find nobody who could tell that the log is not the new file's.
        let wasReplaced = store.map { !$0.files.areCurrent() } ?? false
        if wasReplaced { setAsideLeftLog() }
        letGo(ofReplaced: wasReplaced)
      }
    }
  }

  /// Leaves the file as the next process should find it, before this one closes it.
  func finish() {
    writing.withLock {
      reading.withLock {
        guard let store, store.files.areCurrent() else { return }
        store.startLogOver(at: clock.wallMilliseconds)
      }
    }
  }

  /// - Throws: If the file was replaced and what it has left cannot be set aside yet. Nobody else could
  ///   tell that it is not the new file's, so the replaced file stays open until then.
  package func checkIdentity() throws(StoreError) {
    try Patience.bounded(by: deadline(of: .usual)) { () throws(StoreError) in
      let isCurrent = try holding(reading) { store?.files.areCurrent() }
      guard isCurrent == false else { return }
      try holding(writing) { () throws(StoreError) in
        try holding(reading) { () throws(StoreError) in
          guard let store, !store.files.areCurrent() else { return }
          try store.files.setAsideLeftLog()
          letGo(ofReplaced: true)
        }
      }
    }
  }

  /// Sets aside what a replaced file has left, as far as that is possible now; under both locks.
  private func setAsideLeftLog() {
    do throws(StoreError) {
      try Patience.bounded(by: deadline(of: .usual)) { () throws(StoreError) in
        try store?.files.setAsideLeftLog()
      }
    } catch {
      // Nobody is left to do it later.
    }
  }

  /// Runs a body under a lock, unless the waits of this thread end before it is free.
  func holding<Result>(
    _ lock: Lock, _ body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    guard lock.lock(until: Patience.end) else { throw busy() }
    defer { lock.unlock() }
    return try body()
  }

  /// Checks the identity once a second, for those who read and write without making calls.
  func lookAfterFile(until deadline: Int64) throws(StoreError) {
    let now = clock.coarseNanoseconds
    let due = nextLook.load(ordering: .relaxed)
    guard now >= due else { return }
    let next = now + 1_000_000_000
    guard nextLook.compareExchange(expected: due, desired: next, ordering: .relaxed).exchanged
    else { return }
    try Patience.bounded(by: deadline) { () throws(StoreError) in try checkIdentity() }
  }
}

/// The one way to read, and what changed.
extension SQLiteStorage {
  package func read<Answer>(
    isLong: Bool, _ body: (any StoreReading) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try readFile(isLong: isLong) { connection throws(StoreError) in
      try body(ReadTransaction(on: connection, of: self))
    }
  }

  /// Reads one state of the file, on the writer's connection if it is idle and the reading is short.
  ///
  /// That one keeps its pages in memory over its own commits, which to the other connection are
  /// somebody else's. Nobody ever waits here for a writer, and no writer for a long reading.
  func readFile<Result>(
    isLong: Bool, _ body: (Connection) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let deadline = deadline(of: .usual)
    try lookAfterFile(until: deadline)
    return try Patience.bounded(by: deadline) { () throws(StoreError) in
      if !isLong, writing.tryLock() {
        defer { writing.unlock() }
        let writer = try openedStore().writer
        return try writer.read { () throws(StoreError) in try body(writer) }
      }
      return try readAside(body)
    }
  }

  /// Reads one state of the file on the connection that never writes.
  private func readAside<Result>(
    _ body: (Connection) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    while true {
      let result: Result? = try holding(reading) { () throws(StoreError) in
        guard let store, store.isOfThisBoot(clock), !store.isStale,
          let reader = try store.reader()
        else { return nil }
        return try reader.read { () throws(StoreError) in try body(reader) }
      }
      if let result { return result }
      try checkIdentity()
      try holding(writing) { () throws(StoreError) in _ = try openedStore() }
    }
  }

  package func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    var changes = StoreChanges(continuity: 0, breakers: [], revision: 0, deletedRevision: 0)
    // Rule of order 9: a commit between the count and the reading would pass for one that raised no
    // revision.
    for _ in 0..<8 {
      let before = walIndex?.commits() ?? 0
      changes = try readFile(isLong: false) { connection throws(StoreError) in
        try BreakerTable.changes(since: revision, on: connection, clock: clock)
      }
      if changes.isOfOtherHeader {
        // Somebody has restored the store, or edited what it says of itself.
        writing.withLock { reading.withLock { letGo(ofReplaced: false) } }
        continue
      }
      changes.breakers = changes.breakers.map { upToDate($0, at: clock.instant) }
      // Where the sum below does not reach: each opening may have made it start over.
      changes.continuity &+= openings.load(ordering: .relaxed) << 32
      // Each transaction of ours raises the revision by one, so this sum is moved by others only.
      changes.continuity &+= Int64(before &- UInt32(truncatingIfNeeded: changes.revision))
      if before == walIndex?.commits() ?? 0 { break }
    }
    return changes
  }
}

/// A transaction of an SQLite file, in which everything is read as it stands at one moment.
class ReadTransaction: StoreReading {
  let connection: Connection
  let clock: StoreClock
  private let counterPage: CounterPage

  init(on connection: Connection, of storage: SQLiteStorage) {
    self.connection = connection
    clock = storage.clock
    counterPage = storage.counterPage
  }

  final var header: StoreHeader { connection.header(clock) }
  final var path: String { connection.path }
  final var lineage: Int64 { header.lineage }
  final var boot: Int64 { header.boot.number }
  final func isGone(_ owner: ProcessIdentity) -> Bool { OwnerJudge(of: path).isGone(owner) }

  var now: Moment { clock.moment }

  /// When counters are read.
  ///
  /// The time goes on while a list is read, because what other processes have counted meanwhile
  /// would otherwise lie ahead of it.
  var instant: Instant { clock.instant }

  func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    try BreakerTable.find(name, on: connection, clock: clock).map(upToDate)
  }

  final func find(_ listed: ListedBreaker) throws(StoreError) -> StoredBreaker? {
    let found = try BreakerTable.find(listed.id, on: connection, clock: clock)
    // In a file that has been put in the place of another an id is another breaker's.
    guard let found, NameBytes(found.name) == NameBytes(listed.name) else { return nil }
    return upToDate(found)
  }

  final func upToDate(_ breaker: StoredBreaker) -> StoredBreaker {
    var breaker = breaker
    counterPage.takeIn(to: &breaker, at: instant)
    return breaker
  }

  final func list(
    beginningWith prefix: String, in state: BreakerState?
  ) throws(StoreError) -> [ListedBreaker] {
    try BreakerTable.list(beginningWith: prefix, in: state, on: connection)
  }

  final func declarations(of name: String) throws(StoreError) -> [StoredDeclaration] {
    try BreakerTable.declarations(of: name, on: connection)
  }

  final func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) throws(StoreError) -> [RecordedEvent] {
    try EventTable.history(
      of: name, sinceMilliseconds: sinceMilliseconds, limit: limit, on: connection)
  }

  final func events(
    after id: Int64, of name: String?, limit: Int
  ) throws(StoreError) -> EventBatch {
    try EventTable.batch(after: id, of: name, limit: limit, on: connection)
  }

  final func hook(_ name: String) throws(StoreError) -> HookRecord? {
    try HookTable.find(name, on: connection)
  }

  final func fleet() throws(StoreError) -> StoredFleet? { try FleetTable.find(on: connection) }

  final func registers(of name: String?) throws(StoreError) -> [FleetRegister] {
    try FleetTable.registers(of: name, on: connection, in: header, at: now)
  }

  final func pendingOrders(of name: String?, limit: Int) throws(StoreError) -> [PendingOrder] {
    try FleetTable.pending(limit, of: name, on: connection, in: header, at: now)
  }

  final func tieCounters(to breaker: inout StoredBreaker) {
    counterPage.tie(to: &breaker, at: instant)
  }
}
