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
  private let lifelines: Lifelines
  package let listeners: Listeners

  package init(
    path: String, access: StoreAccess = StoreAccess(), lockTimeout: Duration = .milliseconds(500),
    clock: StoreClock = .system, program: String,
    mandate: HistoryAuthor.Mandate = .none, room: Int? = nil, refusal: StoreError? = nil
  ) {
    self.path = StorePath.absolute(path)
    self.refusal = refusal
    listeners = Listeners(path: self.path)
    lifelines = Lifelines(of: self.path)
    self.access = access
    self.lockTimeout = lockTimeout
    self.clock = clock
    self.program = program
    self.mandate = mandate
    self.room = room.map { Int64($0) } ?? StoreRoom.usualBreakers
  }

  package func willFork() {
    writing.lock()
    reading.lock()
    // No connection is ever carried over a fork (sqlite.org/howtocorrupt.html, 2.6): each side
    // opens its own at its next use.
    letGo(ofReplaced: false)
    counterPage.willFork()
    steps.willFork()
    listeners.willFork()
    lifelines.willFork()
  }

  package func didFork() {
    lifelines.didFork()
    listeners.didFork()
    steps.didFork()
    counterPage.didFork()
    reading.unlock()
    writing.unlock()
  }

  package func lifeline() -> Lifeline? { lifelines.own() }

  package func isGone(_ owner: ProcessIdentity) -> Bool { OwnerJudge(of: path).isGone(owner) }

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

  package func close() {
    writing.withLock {
      reading.withLock {
        // Those who come later find nobody who could tell that the log is not the new file's.
        let wasReplaced = store.map { !$0.files.areCurrent() } ?? false
        if wasReplaced { setAsideLeftLog() }
        letGo(ofReplaced: wasReplaced)
      }
    }
  }

  package func finish() {
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
