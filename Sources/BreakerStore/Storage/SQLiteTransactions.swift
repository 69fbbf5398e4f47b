internal import BreakerCore
internal import CSQLite

/// Writing, one transaction at a time.
extension SQLiteStorage {
  private static let briefly: Int64 = 10_000_000

  package func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    lookAfterFile()
    let deadline = deadline(of: wait)
    var answer: Answer?
    // Another thread may run the body, but only while this one waits for it here.
    let result = withoutActuallyEscaping(body) { body -> Result<StepOutcome?, StoreError> in
      let step = QueuedStep(name, orCreate: orCreate) { draft in answer = body(&draft) }
      switch steps.enter(step, until: deadline) {
      case .leads: lead(step, until: deadline)
      case .isDone: break
      case .isLate: step.end(busy())
      }
      return step.error.map { .failure($0) } ?? .success(step.outcome)
    }
    guard let outcome = try result.get(), let answer else { return nil }
    return Transacted(
      answer: answer, breaker: outcome.breaker, events: outcome.events,
      syncError: outcome.syncError, fingerprints: outcome.fingerprints, others: outcome.others)
  }

  /// Commits a step and those of all threads that have come meanwhile.
  private func lead(_ step: QueuedStep, until deadline: Int64) {
    var group = [step]
    var mustLast: [QueuedStep] = []
    var log: LogFile?
    var isCheckpointDue = false
    steps.gather()
    do throws(StoreError) {
      try commit(until: deadline) { session throws(StoreError) in
        try run(&group, on: session)
        mustLast = group.filter { $0.outcome?.events.isEmpty == false }
        log = session.logFile
        isCheckpointDue = session.isCheckpointDue
      }
      group.forEach { $0.end() }
    } catch {
      group.forEach { $0.end(error) }
      mustLast = []
    }
    // Outside of all locks, so that only those wait for the disk who have to.
    steps.leave(finishing: group.filter { one in !mustLast.contains { $0 === one } })
    if !mustLast.isEmpty { log?.touch() }
    if !mustLast.isEmpty, let error = log?.sync() {
      mustLast.forEach { $0.outcome?.syncError = error }
    }
    steps.finish(mustLast)
    if isCheckpointDue { checkpoint(log) }
  }

  /// Runs a body that commits, under the lock for writing; all its waits end at the deadline.
  func commit(
    until deadline: Int64, _ body: (Session) throws(StoreError) -> Void
  ) throws(StoreError) {
    guard writing.lock(until: deadline) else { throw busy() }
    defer { writing.unlock() }
    let session = try openSessionToWrite()
    do throws(StoreError) {
      try session.writer.waiting(until: deadline) { () throws(StoreError) in try body(session) }
    } catch {
      // Nothing was written: it was found out before the body could begin.
      guard session.isStale else { throw error }
      let session = try openSessionToWrite()
      try session.writer.waiting(until: deadline) { () throws(StoreError) in try body(session) }
    }
  }

  /// One transaction, of the steps of the group and of those that have come until it began.
  private func run(_ group: inout [QueuedStep], on session: Session) throws(StoreError) {
    var commits: UInt32?
    var before: UInt64 = 0
    var taken = group
    defer { group = taken }
    let done = try session.writer.write { () throws(StoreError) -> StepGroup in
      // The write lock is held, so nobody moves them now.
      before = currentFingerprint()
      commits = watch?.commits()
      ownCommits.check(before)
      let revision = ownCommits.revision == nil ? try session.verify() : nil
      taken += steps.take()
      var done = StepGroup(
        on: session.writer, clock: clock, page: page, program: program,
        remembered: ownCommits, room: room, revision: revision)
      try done.run(taken)
      return done
    }
    var fingerprints: Fingerprints?
    if done.hasWritten, let commits, let after = watch?.fingerprint(ofCommit: commits &+ 1) {
      fingerprints = Fingerprints(before: before, after: after)
    }
    done.settle(taken, fingerprints)
    done.remember(in: &ownCommits, fingerprints)
  }

  /// Moves the log into the file; synced before, so that the lock is not held for as long as the
  /// disk takes.
  func checkpoint(_ log: LogFile?) {
    _ = log?.sync()
    // It can wait for the next commit, and this caller's own is over.
    guard writing.lock(until: Patience.deadline(after: .milliseconds(10))) else { return }
    defer { writing.unlock() }
    reading.withLock {
      if let session, session.isCheckpointDue { session.checkpoint() }
    }
  }

  func deadline(of wait: Wait) -> Int64 {
    Patience.monotonicNanoseconds() + (wait == .brief ? min(Self.briefly, patience) : patience)
  }

  private func busy() -> StoreError {
    StoreError(sqlite: SQLITE_BUSY, during: "be changed", message: "", system: 0, path: path)
  }

  package func delete(
    _ name: String, ifStill version: StoredVersion?
  ) throws(StoreError) -> Bool {
    lookAfterFile()
    var isDeleted = false
    var log: LogFile?
    var isCheckpointDue = false
    try commit(until: deadline(of: .usual)) { session throws(StoreError) in
      isDeleted = try session.writer.write { () throws(StoreError) in
        try session.verify()
        guard let found = try BreakerTable.find(name, on: session.writer, clock: clock) else {
          return false
        }
        if let version, StoredVersion(of: upToDate(found)) != version { return false }
        try BreakerTable.delete(found, on: session.writer, at: clock.moment, by: program)
        return true
      }
      log = session.logFile
      isCheckpointDue = session.isCheckpointDue
    }
    if isDeleted {
      log?.touch()
      _ = log?.sync()
    }
    if isCheckpointDue { checkpoint(log) }
    return isDeleted
  }

  package func proveWritable() throws(StoreError) {
    lookAfterFile()
    try commit(until: deadline(of: .brief)) { session throws(StoreError) in
      try session.proveWritable(at: clock.wallMilliseconds)
    }
  }
}
