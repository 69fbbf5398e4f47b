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
  private let program: String
  private let mandate: HistoryAuthor.Mandate

  /// The number of breakers at which the store refuses to make another.
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
  let ownCommits = OwnCommits()
  let openings = Atomic<Int64>(0)
  private let nextLook = Atomic<Int64>(0)
  private var mayCreate = true
  let walIndex = WALIndexPage()
  let counterPage = CounterPage()
  private let slotPage: SlotPage
  package let listeners: Listeners
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
    slotPage = fileOwners.slotPage(clock)
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
      slotPage.willFork()
      steps.willFork()
      listeners.willFork()
      fileOwners.willFork()
    case .after:
      fileOwners.didFork()
      listeners.didFork()
      steps.didFork()
      slotPage.didFork()
      counterPage.didFork()
      reading.unlock()
      writing.unlock()
    }
  }

  /// This process, computed each time, because a fork makes another one.
  var user: StoreUser {
    StoreUser(HistoryAuthor(pid: ProcessTable.ownPid, program: program, mandate: mandate))
  }

  package var sharedCounters: CounterPage? { counterPage }

  package func slots(ofBreaker id: Int64, forCalls calls: Int) -> SlotBlock? {
    if let block = slotPage.block(ofBreaker: id, forCalls: calls) { return block }
    guard slotPage.isReleaseDue() else { return nil }
    do throws(StoreError) {
      // Read after the breaker was made, so one that is missing and older was deleted.
      let living = try list(beginningWith: "", in: nil).map(\.id)
      slotPage.releaseBlocks(before: id, except: Set(living))
    } catch {
      return nil
    }
    return slotPage.block(ofBreaker: id, forCalls: calls)
  }

  package func slotStates(ofBreakers ids: [Int64]) -> [Int64: SlotState] {
    slotPage.states(ofBreakers: ids)
  }

  package func lifeline() -> Lifeline? { fileOwners.lifeline() }
  package func isGone(_ owner: ProcessIdentity) -> Bool { fileOwners.isGone(owner) }

  package func holdRelay() throws(StoreError) -> RelayHold? {
    try beUsable()
    return try fileOwners.holdRelay()
  }

  package func isRelayHeld() throws(StoreError) -> Bool {
    try beUsable()
    return try fileOwners.isRelayHeld()
  }

  private func beUsable() throws(StoreError) { try readFile(isLong: false) { _ in } }

  package func lookAfterSlots() { slotPage.lookAfterFile() }
  package func noteExit() { slotPage.noteExit() }

  package var fingerprint: UnsafePointer<UInt64> {
    unsafe walIndex?.fingerprint ?? SQLiteStorage.nothingKnown
  }

  // It never changes.
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
      // Others may create the store at the same moment, or close it and delete its log.
      let opened = try Patience.retrying(atMost: lockTimeout, after: \.isOfReplacement) {
        () throws(StoreError) in
        try OpenStore(
          path: path, mayCreate: mayCreate, access: access, lockTimeout: lockTimeout,
          clock: clock, lost: lost)
      }
      store = opened
      openings.add(1, ordering: .relaxed)
      usePages(of: opened)
      // Rule of order 15: last, when everything else has been checked.
      _ = walIndex?.attach(to: opened.writer)
      return opened
    }
  }

  /// Opens the store for writing, and agrees with it on the boot if that was not possible before.
  ///
  /// Under the lock for writing.
  func openedStoreToWrite() throws(StoreError) -> OpenStore {
    let store = try openedStore()
    if store.header.isAgreed { return store }
    return try holding(reading) { () throws(StoreError) in
      try store.agree(mayDoWithout: false)
      usePages(of: store)
      return store
    }
  }

  /// Uses the counters and the slots of a store, once all processes agree on the boot that they belong
  /// to.
  private func usePages(of store: OpenStore) {
    let header = store.header
    guard header.isAgreed else { return }
    let place = SharedFile.Place(
      storePath: store.path, store: header.identity, boot: header.boot.number)
    slotPage.use(place)
    counterPage.use(
      place,
      // A store can be used without counters, so opening them takes at most half of the time.
      atMost: .nanoseconds(min(lockTimeout.inNanoseconds, 3_600_000_000_000) / 2))
  }

  /// Under both locks.
  func letGo(ofReplaced wasReplaced: Bool) {
    access.earlier = store?.files.rights ?? access.earlier
    walIndex?.detach()
    ownCommits.forget()
    if let store, wasReplaced { lost.insert(store.header.lineage) }
    store = nil
  }

  package func close(isDone: Bool) {
    if isDone { finish() }
    writing.withLock {
      reading.withLock {
        // No later process can know that this log is the old file's.
        let wasReplaced = store.map { !$0.files.areCurrent() } ?? false
        if wasReplaced { setAsideLeftLog() }
        letGo(ofReplaced: wasReplaced)
      }
    }
  }

  /// Starts the log over if it can, so that the next process need not read it.
  func finish() {
    writing.withLock {
      reading.withLock {
        guard let store, store.files.areCurrent() else { return }
        store.startLogOver(at: clock.wallMilliseconds)
      }
    }
  }

  /// - Throws: If the file was replaced and its log cannot be set aside yet. No other process can know
  ///   that the log is the old file's, so the replaced file stays open until then.
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

  /// Sets aside the log of a replaced file if that is possible now; under both locks.
  private func setAsideLeftLog() {
    do throws(StoreError) {
      try Patience.bounded(by: deadline(of: .usual)) { () throws(StoreError) in
        try store?.files.setAsideLeftLog()
      }
    } catch {
      // This was the last chance: the store is being closed.
    }
  }

  /// Runs a body under a lock, or throws if the lock is not free in time.
  func holding<Result>(
    _ lock: Lock, _ body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    guard lock.lock(until: Patience.end) else { throw busy() }
    defer { lock.unlock() }
    return try body()
  }

  /// Checks the identity once a second, because code that makes no calls has no other check.
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

/// Reading, and what changed.
extension SQLiteStorage {
  package func read<Answer>(
    isLong: Bool, _ body: (ReadTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try readFile(isLong: isLong) { connection throws(StoreError) in
      try body(ReadTransaction(on: connection, clock: clock, counterPage: counterPage))
    }
  }

  /// Reads one state of the file, on the writer's connection if it is idle and the reading is short.
  ///
  /// The writer's connection keeps its pages in memory across its own commits; the other connection
  /// has to read them again. A reader never waits for a writer here, nor a writer for a long reading.
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
  ///
  /// A process that has dropped its rights since it opened the store may not open that one any more.
  /// Then it reads on the writer's connection, and waits for it.
  private func readAside<Result>(
    _ body: (Connection) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    while true {
      var isDenied = false
      let result: Result? = try holding(reading) { () throws(StoreError) in
        guard let store, store.isOfThisBoot(clock), !store.isStale else { return nil }
        let reader: Connection?
        do throws(StoreError) {
          reader = try store.reader()
        } catch {
          guard error.isDenial else { throw error }
          isDenied = true
          return nil
        }
        guard let reader else { return nil }
        return try reader.read { () throws(StoreError) in try body(reader) }
      }
      if let result { return result }
      if isDenied {
        return try holding(writing) { () throws(StoreError) in
          let writer = try openedStore().writer
          return try writer.read { () throws(StoreError) in try body(writer) }
        }
      }
      try checkIdentity()
      try holding(writing) { () throws(StoreError) in _ = try openedStore() }
    }
  }

  package func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    var changes = StoreChanges(continuity: 0, breakers: [], revision: 0, deletedRevision: 0)
    // Rule of order 9: a commit between the count and the reading would be mistaken for one that
    // raised no revision.
    for _ in 0..<8 {
      let before = walIndex?.commits() ?? 0
      changes = try readFile(isLong: false) { connection throws(StoreError) in
        try ReadTransaction(on: connection, clock: clock).changes(since: revision)
      }
      if changes.isOfOtherHeader {
        // The store was restored, or its header was edited.
        try holding(writing) { () throws(StoreError) in
          try holding(reading) { letGo(ofReplaced: false) }
        }
        continue
      }
      changes.breakers = changes.breakers.map { upToDate($0, at: clock.instant) }
      // In bits that the sum below does not reach: each opening may have restarted the count.
      changes.continuity &+= openings.load(ordering: .relaxed) << 32
      // Each transaction of this version raises the revision by one, so only other programs change this
      // sum.
      changes.continuity &+= Int64(before &- UInt32(truncatingIfNeeded: changes.revision))
      if before == walIndex?.commits() ?? 0 { break }
    }
    return changes
  }
}
