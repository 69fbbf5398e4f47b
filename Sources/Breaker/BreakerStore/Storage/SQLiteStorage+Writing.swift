internal import BreakerCore
internal import CSQLite

/// The way of a step to the disk, from top to bottom.
///
/// A thread queues its step. The thread that leads takes all queued steps into one transaction, commits it under the
/// lock for writing, and gives the locks back. Then it finishes the commit: it wakes listeners and syncs the log.
extension SQLiteStorage {
  package func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    let deadline = deadline(of: wait)
    try lookAfterFile(until: deadline)
    var answer: Answer?
    // Another thread may run the body, but only while this one waits for it here.
    let result = withoutActuallyEscaping(body) { body -> Result<StepResult?, StoreError> in
      let step = QueuedStep(name, orCreate: orCreate) { draft in answer = body(&draft) }
      switch steps.enter(step, until: deadline) {
      case .leads: lead(step, until: deadline)
      case .isDone: break
      case .isLate: step.end(busy())
      }
      return step.error.map { .failure($0) } ?? .success(step.result)
    }
    guard let done = try result.get(), let answer else { return nil }
    return Transacted(
      answer: answer, breaker: done.breaker, events: done.events, syncError: done.syncError,
      fingerprints: done.fingerprints, others: done.others)
  }

  /// Commits a step, and the steps of all threads that have queued theirs meanwhile.
  private func lead(_ step: QueuedStep, until deadline: Int64) {
    steps.gather()
    var group = [step]
    let commit: Commit
    do throws(StoreError) {
      commit = try run(&group, until: deadline)
    } catch {
      // Only this thread's wait was ended early.
      let others = error.isInterrupted ? busy() : error
      group.forEach { $0.end($0 === step ? error : others) }
      steps.leave(finishing: group)
      return
    }
    let durable = group.filter { $0.result?.events.isEmpty == false }
    group.forEach { $0.end() }
    steps.leave(finishing: group.filter { one in !durable.contains { $0 === one } })
    finish(commit) { syncError in
      if let syncError { durable.forEach { $0.result?.syncError = syncError } }
      steps.finish(durable)
    }
  }

  /// Runs one transaction, with the steps of the group and those queued before it began.
  private func run(
    _ group: inout [QueuedStep], until deadline: Int64
  ) throws(StoreError) -> Commit {
    var before: UInt64 = 0
    var commits: UInt32?
    var taken = group
    defer { group = taken }
    return try commit(until: deadline) {
      transaction, store throws(StoreError) -> (StepGroup, revision: Int64) in
      // They cannot change now, because this process holds the write lock.
      before = currentFingerprint()
      commits = walIndex?.commits()
      ownCommits.check(before)
      // Rule of order 12: before anything is written.
      if let left = ownCommits.revision {
        transaction.begin(at: left.addingSaturating(1), knowing: ownCommits)
      } else {
        transaction.begin(at: try store.verify())
      }
      taken += steps.take()
      // Rule of order 10: after the last step that is taken along was asked for.
      transaction.happensNow()
      var done = StepGroup(in: transaction)
      for step in taken { try step.take(in: &done) }
      try done.save()
      return (done, transaction.revision)
    } committed: { done, revision in
      var fingerprints: Fingerprints?
      if done.hasWritten, let commits, let after = walIndex?.fingerprint(ofCommit: commits &+ 1) {
        fingerprints = Fingerprints(before: before, after: after)
      }
      for step in taken { step.hasCommitted(in: done, fingerprints) }
      if let fingerprints {
        ownCommits.note(done.rows.map(\.breaker), revision: revision, fingerprints)
      }
    }
  }

  /// Commits what a body writes, under the lock for writing; all its waits end at the deadline.
  ///
  /// - Parameters:
  ///   - deadline: When to give up, on the monotonic clock.
  ///   - body: Writes. It runs again if the store was replaced since it was opened, or if the disk was
  ///     full until the log started over. The first run is rolled back.
  ///   - committed: Receives the body's result after the commit, still under the lock. Nothing that
  ///     holds a connection may outlive it: a fork waits for the lock, and then closes all connections.
  /// - Returns: The commit, which is to be finished.
  /// - Throws: The error of the body, or why nothing can be written; nothing was written then.
  func commit<Done>(
    until deadline: Int64, _ body: (WriteTransaction, OpenStore) throws(StoreError) -> Done,
    committed: (Done) -> Void
  ) throws(StoreError) -> Commit {
    try openToWrite(until: deadline) { store throws(StoreError) in
      let (done, transaction) = try store.writer.write {
        () throws(StoreError) -> (Done, WriteTransaction) in
        let transaction = WriteTransaction(
          on: store.writer, clock: clock, counterPage: counterPage, by: user, room: room)
        return (try body(transaction, store), transaction)
      }
      committed(done)
      return Commit(
        log: store.logFile, demands: transaction.demands,
        isCheckpointDue: store.isCheckpointDue)
    }
  }

  /// Runs a body on the open store, under the lock for writing; all its waits end at the deadline.
  ///
  /// If the body finds that the store was replaced, it runs again on the new one. If it fails because
  /// the disk is full, it runs again if the log can start over in the space that it has.
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
  /// The log can start over when all of it is in the file and no process is reading it; readers
  /// finish within moments. If the file would have to grow to take in the log, the body fails with
  /// its first error.
  private func runInFreedLog<Result>(
    of store: OpenStore, _ body: (OpenStore) throws(StoreError) -> Result, after first: StoreError
  ) throws(StoreError) -> Result {
    let deadline = Patience.deadline(after: .milliseconds(50))
    return try Patience.bounded(by: deadline) { () throws(StoreError) in
      repeat {
        do throws(StoreError) {
          guard try holding(reading, { store.checkpoint(isUrgent: false) }) else { break }
          return try body(store)
        } catch {
          // Others who find the disk full hold the store meanwhile, but the disk is what is wrong with it.
          guard error.kind == .diskFull || error.isOfOthers else { throw error }
        }
      } while Patience.pause(until: deadline)
      throw first
    }
  }

  /// Wakes the listeners after a commit, syncs the log, and moves it into the file.
  ///
  /// It keeps this order (rule of order 14) and holds no lock, so that only callers whose changes
  /// must be durable wait for the disk.
  ///
  /// - Parameters:
  ///   - commit: The commit.
  ///   - synced: Called when the commit will survive a power cut, or with the reason why it may not.
  func finish(_ commit: Commit, synced: (StoreError?) -> Void) {
    if commit.demands.wakesListeners { commit.log.touch() }
    synced(commit.demands.mustBeDurable ? commit.log.sync() : nil)
    if commit.isCheckpointDue { checkpoint(commit.log) }
  }

  /// Moves the log into the file.
  ///
  /// The log is synced first, so that no lock is held while the disk works.
  private func checkpoint(_ log: LogFile) {
    _ = log.sync()
    // The next commit can do it instead, and this caller's commit is done.
    let deadline = Patience.deadline(after: .milliseconds(10))
    guard writing.lock(until: deadline) else { return }
    defer { writing.unlock() }
    guard reading.lock(until: deadline) else { return }
    defer { reading.unlock() }
    if let store, store.isCheckpointDue { store.checkpoint(isUrgent: false) }
  }
}

/// Transactions without steps.
extension SQLiteStorage {
  /// Writes in one transaction, and finishes the commit.
  ///
  /// - Returns: The answer of the body, and why what it wrote may not survive a power cut.
  package func write<Answer>(
    wait: Wait, _ body: (WriteTransaction) throws(StoreError) -> Answer
  ) throws(StoreError) -> (answer: Answer, syncError: StoreError?) {
    let deadline = deadline(of: wait)
    try lookAfterFile(until: deadline)
    var answer: Answer?
    let commit = try commit(until: deadline) { transaction, store throws(StoreError) in
      transaction.begin(at: try store.verify())
      return try body(transaction)
    } committed: {
      answer = $0
    }
    var syncError: StoreError?
    finish(commit) { syncError = $0 }
    guard let answer else { preconditionFailure("a transaction was committed without its body") }
    return (answer, syncError)
  }

  func deadline(of wait: Wait) -> Int64 { Patience.deadline(of: wait, lockTimeout) }

  func busy() -> StoreError {
    StoreError(sqlite: SQLITE_BUSY, during: "be changed", message: "", system: 0, path: path)
  }
}

/// A commit, and what has to follow it outside of all locks.
struct Commit {
  let log: LogFile
  let demands: CommitDemands
  let isCheckpointDue: Bool
}
