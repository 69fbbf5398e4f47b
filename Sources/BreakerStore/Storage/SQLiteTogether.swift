internal import BreakerCore

/// Changing several breakers, all of them or none.
extension SQLiteStorage {
  package func transact(
    together steps: [NamedStep], mustBeNew: Bool
  ) throws(StoreError) -> TransactedTogether {
    lookAfterFile()
    var present: [String] = []
    var log: LogFile?
    var isCheckpointDue = false
    try commit(until: deadline(of: .usual)) { session throws(StoreError) in
      present = try session.writer.write { () throws(StoreError) in
        var revision: Int64? = try session.verify()
        let present = mustBeNew ? try Self.present(steps, on: session.writer, clock) : []
        guard present.isEmpty else { return present }
        for step in steps {
          // Each is a group of its own, for within a group breakers are found one by one.
          var group = StepGroup(
            on: session.writer, clock: clock, page: page, program: program,
            remembered: OwnCommits(), room: room, revision: revision)
          let queued = QueuedStep(step.name, orCreate: true, step.body)
          try group.run([queued])
          if let error = queued.error { throw error }
          // All of them are one transaction.
          revision = group.revision
        }
        return []
      }
      log = session.logFile
      isCheckpointDue = session.isCheckpointDue
    }
    guard present.isEmpty else { return TransactedTogether(present: present) }
    log?.touch()
    let syncError = log?.sync()
    if isCheckpointDue { checkpoint(log) }
    return TransactedTogether(syncError: syncError)
  }

  private static func present(
    _ steps: [NamedStep], on connection: Connection, _ clock: StoreClock
  ) throws(StoreError) -> [String] {
    var present: [String] = []
    for step in steps
    where try BreakerTable.find(step.name, on: connection, clock: clock) != nil {
      present.append(step.name)
    }
    return present
  }
}
