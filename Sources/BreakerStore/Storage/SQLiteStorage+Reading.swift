package import BreakerCore
internal import Synchronization

/// Reading one breaker, and what changed.
extension SQLiteStorage {
  /// Reads one state of the file, on the writer's connection if it is idle.
  ///
  /// That one keeps its pages in memory over its own commits, which to the other connection are
  /// somebody else's. Nobody ever waits here for a writer.
  func read<Result>(
    _ body: (Connection) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let deadline = deadline(of: .usual)
    try lookAfterFile(until: deadline)
    return try Patience.bounded(by: deadline) { () throws(StoreError) in
      if writing.tryLock() {
        defer { writing.unlock() }
        let writer = try openedStore().writer
        return try writer.read { () throws(StoreError) in try body(writer) }
      }
      return try readAside(body)
    }
  }

  /// Reads one state of the file on the connection that never writes.
  func readAside<Result>(
    _ body: (Connection) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    try Patience.bounded(by: deadline(of: .usual)) { () throws(StoreError) in
      while true {
        let result: Result? = try holding(reading) { () throws(StoreError) in
          guard let store, store.isOfThisBoot(clock), !store.isStale,
            let reader = try store.reader()
          else { return nil }
          return try reader.read { () throws(StoreError) in try body(reader) }
        }
        if let result { return result }
        try checkIdentity()
        try holding(writing) { () throws(StoreError) in _ = try openedStore() }
      }
    }
  }

  package func changes(since revision: Int64?) throws(StoreError) -> StoreChanges {
    var changes = StoreChanges(continuity: 0, breakers: [], revision: 0, deletedRevision: 0)
    // Rule of order 9: a commit between the count and the reading would pass for one that raised no
    // revision.
    for _ in 0..<8 {
      let before = walIndex?.commits() ?? 0
      changes = try read { connection throws(StoreError) in
        try BreakerTable.changes(since: revision, on: connection, clock: clock)
      }
      if changes.isOfOtherHeader {
        // Somebody has restored the store, or edited what it says of itself.
        writing.withLock { reading.withLock { letGo(ofReplaced: false) } }
        continue
      }
      changes.breakers = changes.breakers.map(upToDate)
      // Where the sum below does not reach: each opening may have made it start over.
      changes.continuity &+= openings.load(ordering: .relaxed) << 32
      // Each transaction of ours raises the revision by one, so this sum is moved by others only.
      changes.continuity &+= Int64(before &- UInt32(truncatingIfNeeded: changes.revision))
      if before == walIndex?.commits() ?? 0 { break }
    }
    return changes
  }

  package func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    try read { connection throws(StoreError) in
      try BreakerTable.find(name, on: connection, clock: clock)
    }.map(upToDate)
  }

  package func counters(of breaker: StoredBreaker) -> Counters? {
    counterPage.counters(of: breaker)
  }

  package func upToDate(_ breaker: StoredBreaker) -> StoredBreaker {
    var breaker = breaker
    counterPage.takeIn(to: &breaker, at: clock.instant)
    return breaker
  }
}

/// Reading many breakers, on the connection for it, so that no writer of this process waits.
extension SQLiteStorage {
  package func list(
    beginningWith prefix: String, in state: BreakerState?
  ) throws(StoreError) -> [ListedBreaker] {
    try lookAfterFile(until: deadline(of: .usual))
    return try readAside { connection throws(StoreError) in
      let query = try connection.statement(state == nil ? .namesByPrefix : .namesByState)
      query.bind(1, prefix)
      if let state {
        let origins = BreakerState.allCases.filter { $0.mayBecome(state) }
        query.bind(2, origins.first.map { Int64($0.rawValue) })
        query.bind(3, origins.last.map { Int64($0.rawValue) })
      }
      return try query.rows { ListedBreaker(id: $0.integer(0), name: $0.text(1) ?? "") }
    }
  }

  package func read(
    _ listed: some Collection<ListedBreaker>
  ) throws(StoreError) -> [StoredBreaker?] {
    try readAside { connection throws(StoreError) in
      var breakers: [StoredBreaker?] = []
      breakers.reserveCapacity(listed.count)
      for one in listed {
        let found = try BreakerTable.find(one.id, on: connection, clock: clock)
        // In a file that has been put in the place of another an id is another breaker's.
        let isSame = found.map { NameBytes($0.name) == NameBytes(one.name) } ?? false
        breakers.append(isSame ? found.map(upToDate) : nil)
      }
      return breakers
    }
  }
}

/// What a store keeps for people.
extension SQLiteStorage {
  package func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) throws(StoreError) -> [RecordedEvent] {
    try read { connection throws(StoreError) in
      let query = try connection.statement(.history)
      query.bind(1, name)
      query.bind(2, sinceMilliseconds)
      query.bind(3, limit.map { Int64($0) } ?? -1)
      return try query.rows { RecordedEvent($0) }.reversed()
    }
  }

  package func events(
    after id: Int64, of name: String?, limit: Int
  ) throws(StoreError) -> EventBatch {
    // Those who only listen make no calls that would look after the file.
    try checkIdentity()
    return try read { connection throws(StoreError) in
      try EventTable.batch(after: id, of: name, limit: limit, on: connection)
    }
  }

  package func declarations(of name: String) throws(StoreError) -> [StoredDeclaration] {
    try read { connection throws(StoreError) in
      let query = try connection.statement(.declarations)
      query.bind(1, name)
      return try query.rows { row in
        StoredDeclaration(
          words: row.text(0) ?? "", atMilliseconds: row.integer(1),
          pid: Int32(truncatingIfNeeded: row.integer(2)), program: row.text(3) ?? "")
      }
    }
  }
}
