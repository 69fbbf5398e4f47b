internal import BreakerCore
internal import Synchronization

/// The one way to read, and what changed.
extension SQLiteStorage {
  package func read<Answer>(
    isLong: Bool, _ body: (any StoreReading) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    try readFile(isLong: isLong) { connection throws(StoreError) in
      try body(ReadTransaction(on: connection, of: self))
    }
  }

  /// Reads one state of the file, on the writer's connection if it is idle and the reading is short.
  ///
  /// That one keeps its pages in memory over its own commits, which to the other connection are
  /// somebody else's. Nobody ever waits here for a writer, and no writer for a long reading.
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
  private func readAside<Result>(
    _ body: (Connection) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    while true {
      let result: Result? = try holding(reading) { () throws(StoreError) in
        guard let store, store.isOfThisBoot(clock), !store.isStale else { return nil }
        let reader = store.reader
        return try reader.read { () throws(StoreError) in try body(reader) }
      }
      if let result { return result }
      try holding(writing) { () throws(StoreError) in _ = try openedStore() }
    }
  }

  package func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    var changes = StoreChanges(continuity: 0, breakers: [], revision: 0, deletedRevision: 0)
    // Rule of order 9: a commit between the count and the reading would pass for one that raised no
    // revision.
    for _ in 0..<8 {
      let before = walIndex?.commits() ?? 0
      changes = try readFile(isLong: false) { connection throws(StoreError) in
        try BreakerTable.changes(since: revision, on: connection, clock: clock)
      }
      if changes.isOfOtherHeader {
        // Somebody has restored the store, or edited what it says of itself.
        writing.withLock { reading.withLock { letGo(ofReplaced: false) } }
        continue
      }
      changes.breakers = changes.breakers.map { upToDate($0, at: clock.instant) }
      // Where the sum below does not reach: each opening may have made it start over.
      changes.continuity &+= openings.load(ordering: .relaxed) << 32
      // Each transaction of ours raises the revision by one, so this sum is moved by others only.
      changes.continuity &+= Int64(before &- UInt32(truncatingIfNeeded: changes.revision))
      if before == walIndex?.commits() ?? 0 { break }
    }
    return changes
  }
}
