internal import BreakerCore

/// A transaction that writes, from its beginning to its commit.
final class WriteTransaction {
  let connection: Connection
  let clock: StoreClock
  let program: String
  let mandate: HistoryAuthor.Mandate
  let counterPage: CounterPage

  /// How many breakers the store may have before no other is created.
  let room: Int64

  /// When everything in it happens; read once it has begun (rule of order 10).
  private(set) lazy var now = clock.moment

  /// The revision that it gives to the breakers it changes; nil until it has been looked up.
  private(set) var revision: Int64?

  /// Whether processes wait for what it writes, as they do for events.
  var wakesListeners = false

  /// Whether what it writes must survive a power cut before anybody is told of it, as events must.
  var mustBeDurable = false

  private let store: OpenStore

  init(on store: OpenStore, of storage: SQLiteStorage) {
    self.store = store
    connection = store.writer
    clock = storage.clock
    program = storage.program
    mandate = storage.mandate
    counterPage = storage.counterPage
    room = storage.room
  }

  /// Makes sure that the store is still what it was when it was opened (rule of order 12).
  ///
  /// - Throws: If it is not; nothing may have been written before.
  func verify() throws(StoreError) { revision = try store.verify() }

  /// Takes the present as its time (rule of order 10).
  ///
  /// Steps that were taken along must not happen before they were asked for: a probe that was due
  /// then would be rejected.
  func happensNow() { now = clock.moment }

  /// Notes that it has recorded an event.
  func hasRecordedEvent() {
    wakesListeners = true
    mustBeDurable = true
  }
}

/// A commit, and what has to follow it outside of all locks.
struct Commit {
  let log: LogFile
  let wakesListeners: Bool
  let mustBeDurable: Bool
  let isCheckpointDue: Bool
}

/// The one way to write.
extension SQLiteStorage {
  /// Writes in one transaction, and does what follows a commit.
  ///
  /// - Returns: The answer of the body, and why what it wrote may not survive a power cut.
  func write<Answer>(
    wait: Wait = .usual, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?) {
    let deadline = deadline(of: wait)
    try lookAfterFile(until: deadline)
    var answer: Answer?
    let commit = try commit(until: deadline) { transaction throws(StoreError) in
      try transaction.verify()
      return try body(transaction)
    } committed: {
      answer = $0
    }
    var syncError: StoreError?
    finish(commit) { syncError = $0 }
    guard let answer else { preconditionFailure("a transaction was committed without its body") }
    return (answer, syncError)
  }

  /// Commits what a body writes, under the lock for writing; all its waits end at the deadline.
  ///
  /// - Parameters:
  ///   - deadline: When to give up, on the monotonic clock.
  ///   - body: What writes. It is called again if the store turns out to be another one than the one
  ///     that was opened, or if the disk was full until the log started over. Nothing of the first
  ///     run remains then.
  ///   - committed: Takes what the body has returned after the commit, still under the lock. Whatever
  ///     holds a connection must not outlive it: a fork waits for the lock, and then closes them all.
  /// - Returns: The commit, which is to be finished.
  /// - Throws: What the body throws, or why nothing can be written; nothing was written then.
  func commit<Done>(
    until deadline: Int64, _ body: (WriteTransaction) throws(StoreError) -> Done,
    committed: (Done) -> Void
  ) throws(StoreError) -> Commit {
    try openToWrite(until: deadline) { store throws(StoreError) in
      let (done, transaction) = try store.writer.write {
        () throws(StoreError) -> (Done, WriteTransaction) in
        let transaction = WriteTransaction(on: store, of: self)
        return (try body(transaction), transaction)
      }
      committed(done)
      return Commit(
        log: store.logFile, wakesListeners: transaction.wakesListeners,
        mustBeDurable: transaction.mustBeDurable, isCheckpointDue: store.isCheckpointDue)
    }
  }

  /// Runs a body on the open store, under the lock for writing; all its waits end at the deadline.
  ///
  /// A body that finds the store to be another one is run once more, on that one. A body that fails
  /// because the disk is full is run again if the log can start over in the space that it has.
  func openToWrite<Result>(
    until deadline: Int64, _ body: (OpenStore) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    try Patience.bounded(by: deadline) { () throws(StoreError) in
      try holding(writing) { () throws(StoreError) in
        let store = try openedStoreToWrite()
        do throws(StoreError) { return try body(store) } catch {
          if error.kind == .diskFull {
            return try runInFreedLog(of: store, body, after: error)
          }
          guard store.isStale else { throw error }
          return try body(try openedStoreToWrite())
        }
      }
    }
  }

  /// Runs a body again that failed because the disk was full, once the log starts over.
  ///
  /// The log can start over when all of it is in the file and no process is reading it. Readers are
  /// done within moments. If the file itself has to grow, it cannot take in the log, and the body
  /// fails as it did before.
  private func runInFreedLog<Result>(
    of store: OpenStore, _ body: (OpenStore) throws(StoreError) -> Result, after first: StoreError
  ) throws(StoreError) -> Result {
    let deadline = Patience.deadline(after: .milliseconds(50))
    return try Patience.bounded(by: deadline) { () throws(StoreError) in
      repeat {
        let hasMoved = try holding(reading) { store.checkpoint(isUrgent: false) }
        guard hasMoved else { throw first }
        do throws(StoreError) { return try body(store) } catch {
          guard error.kind == .diskFull else { throw error }
        }
      } while Patience.pause(until: deadline)
      throw first
    }
  }

  /// Does what follows a commit: wakes those who listen, syncs the log, moves it into the file.
  ///
  /// It does so in this order (rule of order 14), and holds no lock, so that only those wait for
  /// the disk whose writing must be durable.
  ///
  /// - Parameters:
  ///   - commit: The commit.
  ///   - synced: Is called when the commit will survive a power cut, or with why it may not.
  func finish(_ commit: Commit, synced: (StoreError?) -> Void) {
    if commit.wakesListeners { commit.log.touch() }
    synced(commit.mustBeDurable ? commit.log.sync() : nil)
    if commit.isCheckpointDue { checkpoint(commit.log) }
  }

  /// Moves the log into the file; synced before, so that the lock is not held for as long as the
  /// disk takes.
  private func checkpoint(_ log: LogFile) {
    _ = log.sync()
    // It can wait for the next commit, and this caller's own is over.
    let deadline = Patience.deadline(after: .milliseconds(10))
    guard writing.lock(until: deadline) else { return }
    defer { writing.unlock() }
    guard reading.lock(until: deadline) else { return }
    defer { reading.unlock() }
    if let store, store.isCheckpointDue { store.checkpoint(isUrgent: false) }
  }

  func deadline(of wait: Wait) -> Int64 { Patience.deadline(of: wait, lockTimeout) }
}
