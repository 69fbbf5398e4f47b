internal import BreakerCore
internal import CSQLite
internal import Synchronization

/// Breakers in one SQLite file, which every process of the host shares.
package final class SQLiteStorage: BreakerStorage, @unchecked Sendable {
  package let path: String

  /// Why there is no path, if there is none.
  private let refusal: StoreError?

  /// Under the lock for writing.
  private var access: StoreAccess
  private let lockTimeout: Duration
  let clock: StoreClock
  let program: String

  /// How many breakers the store may have before no other is made.
  let room: Int64

  /// How long a call waits for others, in nanoseconds.
  let patience: Int64

  // Taken in this order. The session is replaced under both, and used under either.
  let writing = Lock()
  let reading = Lock()
  private(set) var session: Session?

  /// The lineages of stores that were replaced, or have lost their logs, while they were open here.
  private var lost: Set<Int64> = []

  let steps = StepQueue()

  /// Under the lock for writing.
  var ownCommits = OwnCommits()
  private let openings = Atomic<Int64>(0)
  private let nextLook = Atomic<Int64>(0)
  private var mayCreate = true
  let watch = WatchPage()
  let page = CounterPage()
  package let listeners: Listeners

  package init(
    path: String, access: StoreAccess = StoreAccess(), lockTimeout: Duration = .milliseconds(500),
    clock: StoreClock = .system, program: String, room: Int? = nil, refusal: StoreError? = nil
  ) {
    self.path = StorePath.absolute(path)
    self.refusal = refusal
    listeners = Listeners(path: self.path)
    self.access = access
    self.lockTimeout = lockTimeout
    self.clock = clock
    self.program = program
    self.room = room.map { Int64($0) } ?? StoreRoom.usualBreakers
    patience = Patience.nanoseconds(lockTimeout)
  }

  package func willFork() {
    writing.lock()
    reading.lock()
    // No connection is ever carried over a fork (sqlite.org/howtocorrupt.html, 2.6): each side
    // opens its own at its next use.
    letGo()
    page.willFork()
    steps.willFork()
    listeners.willFork()
  }

  package func didFork() {
    listeners.didFork()
    steps.didFork()
    page.didFork()
    reading.unlock()
    writing.unlock()
  }

  package var fingerprint: UnsafePointer<UInt64> {
    unsafe watch?.fingerprint ?? SQLiteStorage.nothingKnown
  }

  private nonisolated(unsafe) static let nothingKnown: UnsafePointer<UInt64> = {
    let zero = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
    unsafe zero.initialize(to: 0)
    return unsafe UnsafePointer(zero)
  }()

  package func open(mayCreate: Bool) throws(StoreError) {
    try writing.withLock { () throws(StoreError) in
      self.mayCreate = mayCreate
      _ = try openSession()
    }
  }

  /// Under the lock for writing.
  func openSession() throws(StoreError) -> Session {
    if let session, session.isOfThisBoot(clock), !session.isStale { return session }
    if let refusal { throw refusal }
    return try reading.withLock { () throws(StoreError) in
      letGo()
      let opened = try Session(
        path: path, mayCreate: mayCreate, access: access, lockTimeout: lockTimeout,
        clock: clock, lost: lost)
      session = opened
      openings.add(1, ordering: .relaxed)
      usePage(of: opened)
      _ = watch?.attach(to: opened.reader)
      return opened
    }
  }

  /// Opens what has to be open to write, and agrees with the store on the boot if that could not be
  /// done before.
  ///
  /// Under the lock for writing.
  func openSessionToWrite() throws(StoreError) -> Session {
    let session = try openSession()
    if session.header.isAgreed { return session }
    return try reading.withLock { () throws(StoreError) in
      try session.agree(mayDoWithout: false)
      usePage(of: session)
      return session
    }
  }

  /// Uses the counters of a store; those of another boot may only be replaced if all agree that it is.
  private func usePage(of session: Session) {
    let header = session.header
    guard header.isAgreed else { return }
    page.use(
      .init(storePath: session.path, store: header.identity, boot: header.boot.number))
  }

  /// Under both locks.
  private func letGo(ofReplaced wasReplaced: Bool = false) {
    access.earlier = session?.files.rights ?? access.earlier
    watch?.detach()
    ownCommits = OwnCommits()
    if let session, wasReplaced { lost.insert(session.header.lineage) }
    session = nil
  }

  package func close() {
    writing.withLock {
      reading.withLock {
        // Those who come later find nobody who could tell that the log is not the new file's.
        let wasReplaced = session.map { !$0.files.areCurrent() } ?? false
        if wasReplaced { session?.files.setAsideLeftLog() }
        letGo(ofReplaced: wasReplaced)
      }
    }
  }

  package func finish() {
    writing.withLock {
      reading.withLock {
        guard let session, session.files.areCurrent() else { return }
        session.beginLogAnew(at: clock.wallMilliseconds)
      }
    }
  }

  package func checkIdentity() {
    guard reading.withLock({ session?.files.areCurrent() }) == false else { return }
    writing.withLock {
      guard let session, !reading.withLock({ session.files.areCurrent() }) else { return }
      session.files.setAsideLeftLog()
      reading.withLock { letGo(ofReplaced: true) }
    }
  }

  /// Checks the identity once a second, for those who read and write without making calls.
  func lookAfterFile() {
    let now = clock.coarseNanoseconds
    let due = nextLook.load(ordering: .relaxed)
    guard now >= due else { return }
    let next = now + 1_000_000_000
    guard nextLook.compareExchange(expected: due, desired: next, ordering: .relaxed).exchanged
    else { return }
    checkIdentity()
  }

  /// Reads one state of the file, on the writer's connection if it is idle.
  ///
  /// That one keeps its pages in memory over its own commits, which to the other connection are
  /// somebody else's. Nobody ever waits here for a writer.
  func read<Result>(
    _ body: (Connection) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    lookAfterFile()
    if writing.tryLock() {
      defer { writing.unlock() }
      let writer = try openSession().writer
      return try writer.read { () throws(StoreError) in try body(writer) }
    }
    return try readAside(body)
  }

  /// Reads one state of the file on the connection that never writes.
  func readAside<Result>(
    _ body: (Connection) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    while true {
      let result: Result? = try reading.withLock { () throws(StoreError) in
        guard let session, session.isOfThisBoot(clock), !session.isStale else { return nil }
        let reader = session.reader
        return try reader.read { () throws(StoreError) in try body(reader) }
      }
      if let result { return result }
      try writing.withLock { () throws(StoreError) in _ = try openSession() }
    }
  }

  package func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    var changes = StoreChanges(continuity: 0, breakers: [], revision: 0, deletedRevision: 0)
    // A commit between the count and the reading would pass for one that raised no revision.
    for _ in 0..<8 {
      let before = watch?.commits() ?? 0
      changes = try read { connection throws(StoreError) in
        try BreakerTable.changes(since: revision, on: connection, clock: clock)
      }
      if changes.isOfOtherHeader {
        // Somebody has restored the store, or edited what it says of itself.
        writing.withLock { reading.withLock { letGo() } }
        continue
      }
      changes.breakers = changes.breakers.map(upToDate)
      // Where the sum below does not reach: each opening may have made it start anew.
      changes.continuity &+= openings.load(ordering: .relaxed) << 32
      // Each transaction of ours raises the revision by one, so this sum is moved by others only.
      changes.continuity &+= Int64(before &- UInt32(truncatingIfNeeded: changes.revision))
      if before == watch?.commits() ?? 0 { break }
    }
    return changes
  }

  package func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    try read { connection throws(StoreError) in
      try BreakerTable.find(name, on: connection, clock: clock)
    }.map(upToDate)
  }

  package func counters(of breaker: StoredBreaker) -> Counters? {
    page.counters(of: breaker)
  }

  package func upToDate(_ breaker: StoredBreaker) -> StoredBreaker {
    var breaker = breaker
    page.takeIn(to: &breaker, at: clock.instant)
    return breaker
  }
}
