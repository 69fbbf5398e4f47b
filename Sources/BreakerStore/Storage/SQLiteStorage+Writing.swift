package import BreakerCore
internal import CSQLite

/// Everything that writes.
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

  /// Commits a step and those of all threads that have come meanwhile.
  private func lead(_ step: QueuedStep, until deadline: Int64) {
    steps.gather()
    var group = [step]
    let commit: Commit
    do throws(StoreError) {
      commit = try run(&group, until: deadline)
    } catch {
      group.forEach { $0.end(error) }
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

  /// One transaction, of the steps of the group and of those that have come until it began.
  private func run(
    _ group: inout [QueuedStep], until deadline: Int64
  ) throws(StoreError) -> Commit {
    var before: UInt64 = 0
    var commits: UInt32?
    var taken = group
    defer { group = taken }
    return try commit(until: deadline) { transaction throws(StoreError) -> StepGroup in
      // The write lock is held, so nobody moves them now.
      before = currentFingerprint()
      commits = walIndex?.commits()
      ownCommits.check(before)
      // Rule of order 12: before anything is written.
      if ownCommits.revision == nil { try transaction.verify() }
      taken += steps.take()
      // Rule of order 10: after the last step that is taken along was asked for.
      transaction.happensNow()
      var done = StepGroup(in: transaction, remembered: ownCommits)
      try done.run(taken)
      return done
    } committed: { done in
      var fingerprints: Fingerprints?
      if done.hasWritten, let commits, let after = walIndex?.fingerprint(ofCommit: commits &+ 1) {
        fingerprints = Fingerprints(before: before, after: after)
      }
      done.deliver(to: taken, fingerprints)
      done.remember(in: &ownCommits, fingerprints)
    }
  }

  func busy() -> StoreError {
    StoreError(sqlite: SQLITE_BUSY, during: "be changed", message: "", system: 0, path: path)
  }

  package func transact(
    together steps: [NamedStep], mustBeNew: Bool
  ) throws(StoreError) -> TransactedTogether {
    let (done, syncError) = try write { transaction throws(StoreError) in
      var done = TransactedTogether()
      if mustBeNew { done.present = try Self.present(steps, in: transaction) }
      guard done.present.isEmpty else { return done }
      for step in steps {
        // Each is a group of its own, because within a group breakers are found one by one.
        var group = StepGroup(in: transaction, remembered: OwnCommits())
        let queued = QueuedStep(step.name, orCreate: true, step.body)
        try group.run([queued])
        if let error = queued.error { throw error }
        done.events.append((step.name, queued.result?.events ?? []))
      }
      // A restore returns only when all of it is on the disk, also the changes without an event.
      transaction.wakesListeners = true
      transaction.mustBeDurable = true
      return done
    }
    var told = done
    told.syncError = syncError
    return told
  }

  private static func present(
    _ steps: [NamedStep], in transaction: WriteTransaction
  ) throws(StoreError) -> [String] {
    var present: [String] = []
    for step in steps
    where try BreakerTable.find(
      step.name, on: transaction.connection, clock: transaction.clock) != nil
    {
      present.append(step.name)
    }
    return present
  }

  package func delete(
    _ name: String, ifStill version: StoredVersion?
  ) throws(StoreError) -> Deletion {
    let (isDeleted, syncError) = try write { transaction throws(StoreError) in
      guard
        let found = try BreakerTable.find(name, on: transaction.connection, clock: clock)
      else { return false }
      if let version, StoredVersion(of: upToDate(found)) != version { return false }
      try BreakerTable.delete(found, in: transaction)
      return true
    }
    return Deletion(isDeleted: isDeleted, syncError: syncError)
  }

  package func answer(_ request: HookRequest) throws(StoreError) -> HookTurn {
    try checkIdentity()
    // Most who are woken for an event find that another process has it, and need no write for that.
    let seen = try read { connection throws(StoreError) in
      try HookTable.change(request, on: connection, clock: clock)
    }
    guard seen.hasChanged else { return seen.turn }
    return try write { transaction throws(StoreError) in
      let change = try HookTable.change(request, on: transaction.connection, clock: clock)
      guard change.hasChanged else { return change.turn }
      try HookTable.save(change.record, of: request.hook, on: transaction.connection)
      // One breaker is read again by everyone, instead of all of them as after a stranger's write.
      if let name = change.turn.breaker ?? request.report?.name {
        try BreakerTable.raiseRevision(of: name, on: transaction.connection)
      }
      // A process that stops leaves the rest to others, who have to be told.
      if !request.mayRun { transaction.wakesListeners = true }
      return change.turn
    }.answer
  }

  package func proveWritable() throws(StoreError) {
    _ = try write(wait: .brief) { transaction throws(StoreError) in
      try OpenStore.proveWritable(
        on: transaction.connection, at: transaction.now.wallMilliseconds)
    }
  }
}
