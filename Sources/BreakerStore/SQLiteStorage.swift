internal import BreakerCore
internal import CSQLite
internal import Synchronization

/// Breakers in one SQLite file, which every process of the host shares.
package final class SQLiteStorage: BreakerStorage, @unchecked Sendable {
  package let path: String
  private let access: StoreAccess
  private let lockTimeout: Duration
  let clock: StoreClock
  private let program: String

  // Taken in this order. The session is replaced under both, and used under either.
  private let writing = Lock()
  private let reading = Lock()
  private var session: Session?
  private let openings = Atomic<Int64>(0)
  private let nextLook = Atomic<Int64>(0)
  private var mayCreate = true
  private let watch = WatchPage()
  private let page = CounterPage()

  private static let briefly = Duration.milliseconds(10)

  package init(
    path: String, access: StoreAccess = StoreAccess(), lockTimeout: Duration = .milliseconds(500),
    clock: StoreClock = .system, program: String
  ) {
    self.path = StorePath.absolute(path)
    self.access = access
    self.lockTimeout = lockTimeout
    self.clock = clock
    self.program = program
  }

  package func willFork() {
    writing.lock()
    reading.lock()
    // No connection is ever carried over a fork (sqlite.org/howtocorrupt.html, 2.6): each side
    // opens its own at its next use.
    letGo()
    page.willFork()
  }

  package func didFork() {
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
  private func openSession() throws(StoreError) -> Session {
    if let session { return session }
    return try reading.withLock { () throws(StoreError) in
      let opened = try Session(
        path: path, mayCreate: mayCreate, access: access, lockTimeout: lockTimeout,
        now: clock.wallMilliseconds)
      session = opened
      openings.add(1, ordering: .relaxed)
      page.use(.init(storePath: opened.path, store: opened.identity, boot: clock.boot))
      _ = watch?.attach(to: opened.reader)
      return opened
    }
  }

  /// Under both locks.
  private func letGo() {
    watch?.detach()
    session = nil
  }

  package func close() {
    writing.withLock { reading.withLock { letGo() } }
  }

  package func checkIdentity() {
    guard let open = reading.withLock({ session?.files }), !open.areCurrent else { return }
    writing.withLock {
      guard let files = session?.files, !files.areCurrent else { return }
      files.setAsideLeftLog()
      reading.withLock { letGo() }
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
        guard let reader = session?.reader else { return nil }
        return try reader.read { () throws(StoreError) in try body(reader) }
      }
      if let result { return result }
      try writing.withLock { () throws(StoreError) in _ = try openSession() }
    }
  }

  /// Runs a transaction; the log is synced afterwards if `body` says that it must last.
  func write<Result>(
    wait: Wait, _ body: (Connection, inout Bool) throws(StoreError) -> Result
  ) throws(StoreError) -> (result: Result, syncError: StoreError?) {
    lookAfterFile()
    // One wait for both locks: threads of a process do not wait one after the other.
    let timeout = wait == .brief ? min(Self.briefly, lockTimeout) : lockTimeout
    let deadline = Patience.deadline(after: timeout)
    guard writing.lock(until: deadline) else {
      throw StoreError(
        sqlite: SQLITE_BUSY, during: "be changed", message: "", system: 0, path: path)
    }
    defer { writing.unlock() }
    let session = try openSession()
    var mustLast = false
    let left = Duration.nanoseconds(max(0, deadline - Patience.monotonicNanoseconds()))
    let result = try session.writer.waiting(atMost: left) { () throws(StoreError) in
      try session.writer.write { () throws(StoreError) in
        try body(session.writer, &mustLast)
      }
    }
    let syncError = mustLast ? session.syncLog() : nil
    if session.isCheckpointDue { reading.withLock { session.checkpoint() } }
    return (result, syncError)
  }

  package func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    var changes = StoreChanges(lineage: 0, breakers: [], revision: 0, deletedRevision: 0)
    // A commit between the count and the reading would pass for one that raised no revision.
    for _ in 0..<8 {
      let before = watch?.commits() ?? 0
      changes = try read { connection throws(StoreError) in
        try BreakerTable.changes(since: revision, on: connection, clock: clock)
      }
      // Where the sum below does not reach: each opening may have made it start anew.
      changes.breakers = changes.breakers.map(upToDate)
      changes.lineage &+= openings.load(ordering: .relaxed) << 32
      // Each transaction of ours raises the revision by one, so this sum is moved by others only.
      changes.lineage &+= Int64(before &- UInt32(truncatingIfNeeded: changes.revision))
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
    breaker.agreed.value = breaker.agreedPolicy
    page.takeIn(to: &breaker, at: clock)
    return breaker
  }

  package func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    let author = Author(pid: ProcessTable.ownPid, program: program)
    var before: (fingerprint: UInt64, commits: UInt32)?
    let written = try write(wait: wait) {
      connection, mustLast throws(StoreError) -> Transacted<Answer>? in
      // The write lock is held, so nobody moves them now.
      before = watch.map { (currentFingerprint(), $0.commits()) }
      let found = try BreakerTable.find(name, on: connection, clock: clock)
      let now = clock.moment
      let original: StoredBreaker
      if let found {
        original = upToDate(found)
      } else if orCreate {
        original = try BreakerTable.insert(name, on: connection, clock: clock, now: now)
      } else {
        return nil
      }
      var draft = BreakerDraft(now: now, breaker: original)
      page.tie(to: &draft.breaker)
      let answer = body(&draft)
      page.forgetMarks(of: draft.breaker, ifChangedSince: original)
      try BreakerTable.save(
        &draft, before: original, isNew: found == nil, on: connection, clock: clock, by: author)
      mustLast = !draft.events.isEmpty
      return Transacted(answer: answer, breaker: draft.breaker, events: draft.events)
    }
    guard var transacted = written.result else { return nil }
    transacted.syncError = written.syncError
    if let before, let after = watch?.fingerprint(ofCommit: before.commits &+ 1) {
      transacted.fingerprints = .init(before: before.fingerprint, after: after)
    }
    return transacted
  }

  package func delete(_ name: String) throws(StoreError) -> Bool {
    let author = Author(pid: ProcessTable.ownPid, program: program)
    return try write(wait: .usual) { connection, mustLast throws(StoreError) -> Bool in
      mustLast = true
      return try BreakerTable.delete(name, on: connection, at: clock.moment, by: author)
    }.result
  }

  package func proveWritable() throws(StoreError) {
    _ = try write(wait: .brief) { connection, _ throws(StoreError) -> Void in
      let prove = try connection.statement(.proveWritable)
      prove.bind(1, clock.wallMilliseconds)
      try prove.run()
    }
  }
}

/// Who made a change.
struct Author {
  var pid: Int32
  var program: String
}
