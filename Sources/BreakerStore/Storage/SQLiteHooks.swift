/// Hooks that one process at a time runs.
extension SQLiteStorage {
  package func stepHook(_ step: HookStep) throws(StoreError) -> HookTurn {
    checkIdentity()
    // Most who are woken for an event find that another process has it, and need no write for that.
    let seen = try read { connection throws(StoreError) in
      try HookTable.change(step, on: connection, clock: clock)
    }
    guard seen.hasChanged else { return seen.turn }
    var turn = HookTurn.idle
    var log: LogFile?
    try commit(until: deadline(of: .usual)) { session throws(StoreError) in
      turn = try session.writer.write { () throws(StoreError) in
        try session.verify()
        let change = try HookTable.change(step, on: session.writer, clock: clock)
        guard change.hasChanged else { return change.turn }
        try HookTable.save(change.record, of: step.hook, on: session.writer)
        // One breaker is read again by everyone, instead of all of them as after a stranger's write.
        if let name = change.turn.breaker ?? step.report?.name {
          try BreakerTable.raiseRevision(of: name, on: session.writer)
        }
        return change.turn
      }
      log = session.logFile
    }
    // What this process leaves to others they have to be told of.
    if !step.mayRun { log?.touch() }
    return turn
  }
}
