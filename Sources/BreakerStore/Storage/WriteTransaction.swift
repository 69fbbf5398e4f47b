internal import BreakerCore

/// A transaction that writes, from its beginning to its commit.
final class WriteTransaction: ReadTransaction, StorePlace {
  private let store: OpenStore
  private let storage: SQLiteStorage

  /// Whether the file is as the latest commits of this process have left it.
  private var isAsLeft = false

  private(set) var revision: Int64 = 0
  var demands = CommitDemands()

  /// When everything in it happens; read once it has begun (rule of order 10).
  private lazy var moment = storage.clock.moment

  override var now: Moment { moment }
  override var instant: Instant { moment.boot }

  init(on store: OpenStore, of storage: SQLiteStorage) {
    self.store = store
    self.storage = storage
    super.init(on: store.writer, of: storage)
  }

  /// Makes sure that the store is still what it was when it was opened (rule of order 12).
  ///
  /// - Throws: If it is not; nothing may have been written before.
  func verify() throws(StoreError) { revision = try store.verify() }

  /// Makes sure of the same, unless the file is as this process has left it.
  func verifyUnlessAsLeft() throws(StoreError) {
    guard let left = storage.ownCommits.revision else { return try verify() }
    revision = left.addingSaturating(1)
    isAsLeft = true
  }

  /// Takes the present as its time (rule of order 10).
  ///
  /// Steps that were taken along must not happen before they were asked for: a probe that was due
  /// then would be rejected.
  func happensNow() { moment = clock.moment }

  override func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    guard isAsLeft, let known = storage.ownCommits.breaker(name) else {
      return try super.find(name)
    }
    return upToDate(known)
  }

  func lackOfRoom() throws(StoreError) -> StoreError? {
    try StoreRoom.isLeft(on: connection, for: storage.room)
      ? nil : StoreRoom.error(path: path, limit: storage.room)
  }

  func insert(_ breaker: inout StoredBreaker) throws(StoreError) {
    try BreakerTable.insert(
      &breaker, revision: revision, on: connection, boot: header.boot.number, now: now)
  }

  func tie(_ breaker: inout StoredBreaker) { tieCounters(to: &breaker) }

  func save(_ breaker: inout StoredBreaker, before: StoredBreaker) throws(StoreError) {
    try BreakerTable.save(
      &breaker, before: before, on: connection, boot: header.boot.number)
  }

  func delete(_ breaker: StoredBreaker) throws(StoreError) {
    try BreakerTable.delete(breaker, on: connection)
  }

  func raiseRevision(of name: String?) throws(StoreError) {
    let any = name == nil ? try BreakerTable.any(on: connection) : nil
    guard let name = name ?? any else { return }
    try BreakerTable.raiseRevision(of: name, to: revision, on: connection)
  }

  func declare(_ words: String, for breaker: StoredBreaker) throws(StoreError) {
    try BreakerTable.declare(words, of: breaker.id, at: now, by: storage.program, on: connection)
  }

  func append(_ event: BreakerEvent, of name: String) throws(StoreError) {
    let author = HistoryAuthor(
      pid: ProcessTable.ownPid, program: storage.program, mandate: storage.mandate)
    try EventTable.insert(event, of: name, by: author, on: connection)
  }

  func save(_ hook: HookRecord, of name: String) throws(StoreError) {
    try HookTable.save(hook, of: name, on: connection)
  }

  func save(_ fleet: StoredFleet) throws(StoreError) {
    try FleetTable.save(fleet, on: connection)
  }

  func forgetFleet() throws(StoreError) { try FleetTable.deleteAll(on: connection) }

  func hasRoomForStrangers() throws(StoreError) -> Bool {
    try FleetTable.countOfRegisters(on: connection) < storage.room
  }

  func keep(_ register: FleetRegister) throws(StoreError) {
    try FleetTable.keep(register, on: connection, in: header)
  }

  func append(_ order: FleetOrder) throws(StoreError) {
    try FleetTable.insert(order, on: connection, in: header)
  }

  func deletePending(_ ids: ClosedRange<Int64>) throws(StoreError) {
    try FleetTable.deletePending(ids, on: connection)
  }

  func forgetOrders(stampedAbove stamp: Int64) throws(StoreError) {
    try FleetTable.deleteOrders(stampedAbove: stamp, on: connection)
  }

  func proveWritable() throws(StoreError) {
    try OpenStore.proveWritable(on: connection, at: now.wallMilliseconds)
  }
}
