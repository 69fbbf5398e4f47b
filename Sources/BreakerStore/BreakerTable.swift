internal import BreakerCore

/// Breakers, their leases, events and declarations, inside a transaction of the caller's.
enum BreakerTable {
  /// How many events are kept of one breaker, and of all together.
  static let eventsOfOneBreaker: Int64 = 500

  /// Changes of policy have a share of their own: callers who disagree make many of them.
  static let policyEventsOfOneBreaker: Int64 = 100
  static let eventsOfAll: Int64 = 50_000

  /// How many declarations of one breaker are kept.
  static let declarations: Int64 = 8

  static func find(
    _ name: String, on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> StoredBreaker? {
    let query = try connection.statement(.breakerByName)
    query.bind(1, name)
    return try query.first { row throws(StoreError) in
      try breaker(row, on: connection, clock: clock)
    }
  }

  static func find(
    _ id: Int64, on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> StoredBreaker? {
    let query = try connection.statement(.breakerByID)
    query.bind(1, id)
    return try query.first { row throws(StoreError) in
      try breaker(row, on: connection, clock: clock)
    }
  }

  /// The whole breaker of a row; one of an earlier boot as it stands in this one.
  private static func breaker(
    _ row: Statement, on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> StoredBreaker {
    var (breaker, boot) = BreakerRow.read(row)
    if boot != clock.boot {
      breaker.record = breaker.record.carriedOver(to: clock.moment)
    } else if breaker.record.state == .halfOpen {
      breaker.record.leases = try leases(of: breaker.id, on: connection)
    }
    return breaker
  }

  /// What changed after a revision; without one, only which is the newest.
  static func changes(
    since revision: Int64?, on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> StoreChanges {
    let identity = try connection.statement(.identity).rows { $0.integer(0) }.first ?? 0
    let deleted = try connection.statement(.deletedRevision).rows { $0.integer(0) }.first ?? 0
    var changes = StoreChanges(
      lineage: identity, breakers: [], revision: try nextRevision(on: connection) - 1,
      deletedRevision: deleted)
    if let revision, revision < changes.revision {
      let query = try connection.statement(.breakersSince)
      query.bind(1, revision)
      changes.breakers = try query.rows { row throws(StoreError) in
        try breaker(row, on: connection, clock: clock)
      }
    }
    return changes
  }

  static func insert(
    _ name: String, on connection: Connection, clock: StoreClock, now: Moment
  ) throws(StoreError) -> StoredBreaker {
    let revision = try nextRevision(on: connection)
    let query = try connection.statement(.insertBreaker)
    query.bind(1, name)
    query.bind(2, revision)
    query.bind(3, clock.boot)
    query.bind(4, now.wallMilliseconds)
    let id = try query.rows { $0.integer(0) }.first ?? 0
    var breaker = StoredBreaker(
      id: id, name: name, createdAtMilliseconds: now.wallMilliseconds)
    breaker.revision = revision
    return breaker
  }

  /// Writes what a transaction has decided; nothing, if it has decided nothing.
  static func save(
    _ draft: inout BreakerDraft, before: StoredBreaker, isNew: Bool, on connection: Connection,
    clock: StoreClock, by author: Author
  ) throws(StoreError) {
    for event in draft.events {
      try insert(event, of: draft.breaker.name, at: draft.now, by: author, on: connection)
    }
    if let words = draft.declaration {
      try declare(words, of: draft.breaker.id, at: draft.now, by: author, on: connection)
    }
    guard draft.breaker != before else { return }
    // One transaction, one revision, also if it has just made the row.
    if !isNew { draft.breaker.revision = try nextRevision(on: connection) }
    let update = try connection.statement(.updateBreaker)
    BreakerRow.bind(draft.breaker, boot: clock.boot, to: update)
    try update.run()
    // The leases of an earlier boot are passed over when they are read, and go with the next write.
    let mayBeStale = before.record.state == .halfOpen && before.record.leases.isEmpty
    if mayBeStale || draft.breaker.record.leases != before.record.leases {
      try replaceLeases(of: draft.breaker, on: connection)
    }
  }

  /// Deletes a breaker; the table's trigger takes what hangs on it, and notes the deletion.
  static func delete(
    _ name: String, on connection: Connection, at now: Moment, by author: Author
  ) throws(StoreError) -> Bool {
    let delete = try connection.statement(.deleteBreaker)
    delete.bind(1, name)
    let deleted = try delete.rows { BreakerState(rawValue: Int($0.integer(0))) ?? .closed }
    guard let state = deleted.first else { return false }
    let event = BreakerEvent(.deletion, from: state.wireName, to: "deleted", reason: nil)
    try insert(event, of: name, at: now, by: author, on: connection)
    return true
  }

  static func nextRevision(on connection: Connection) throws(StoreError) -> Int64 {
    try connection.statement(.nextRevision).rows { $0.integer(0) }.first ?? 1
  }

  private static func leases(
    of breaker: Int64, on connection: Connection
  ) throws(StoreError) -> [ProbeLease] {
    let query = try connection.statement(.leases)
    query.bind(1, breaker)
    return try query.rows { row in
      let owner = row.integerOrNil(1).map {
        ProcessIdentity(
          pid: Int32(truncatingIfNeeded: $0), startTicks: UInt64(bitPattern: row.integer(2)),
          pidNamespace: UInt64(bitPattern: row.integer(3)))
      }
      return ProbeLease(
        id: row.integer(0), owner: owner, deadline: Instant(nanoseconds: row.integer(4)))
    }
  }

  private static func replaceLeases(
    of breaker: StoredBreaker, on connection: Connection
  ) throws(StoreError) {
    let delete = try connection.statement(.deleteLeases)
    delete.bind(1, breaker.id)
    try delete.run()
    for lease in breaker.record.leases {
      let insert = try connection.statement(.insertLease)
      insert.bind(1, breaker.id)
      insert.bind(2, lease.id)
      insert.bind(3, lease.owner.map { Int64($0.pid) })
      insert.bind(4, lease.owner.map { Int64(bitPattern: $0.startTicks) })
      insert.bind(5, lease.owner.map { Int64(bitPattern: $0.pidNamespace) })
      insert.bind(6, lease.deadline.nanoseconds)
      try insert.run()
    }
  }

  private static func insert(
    _ event: BreakerEvent, of name: String, at now: Moment, by author: Author,
    on connection: Connection
  ) throws(StoreError) {
    let insert = try connection.statement(.insertEvent)
    insert.bind(1, now.wallMilliseconds)
    insert.bind(2, name)
    insert.bind(3, Int64(event.kind.rawValue))
    insert.bind(4, event.from)
    insert.bind(5, event.to)
    insert.bind(6, event.reason)
    insert.bind(7, Int64(author.pid))
    insert.bind(8, author.program)
    let id = try insert.rows { $0.integer(0) }.first ?? 0
    // Trimmed now and then: a search for the 500th event at every transition would be waste.
    guard id % 32 == 0 else { return }
    let isPolicy = event.kind == .policy
    let ofOne = try connection.statement(.trimEventsOfBreaker)
    ofOne.bind(1, name)
    ofOne.bind(2, isPolicy ? 1 : 0)
    ofOne.bind(3, isPolicy ? policyEventsOfOneBreaker : eventsOfOneBreaker)
    try ofOne.run()
    let ofAll = try connection.statement(.trimEvents)
    ofAll.bind(1, id - eventsOfAll)
    try ofAll.run()
  }

  private static func declare(
    _ words: String, of breaker: Int64, at now: Moment, by author: Author,
    on connection: Connection
  ) throws(StoreError) {
    let declare = try connection.statement(.declare)
    declare.bind(1, breaker)
    declare.bind(2, words)
    declare.bind(3, now.wallMilliseconds)
    declare.bind(4, Int64(author.pid))
    declare.bind(5, author.program)
    try declare.run()
    let trim = try connection.statement(.trimDeclarations)
    trim.bind(1, breaker)
    trim.bind(2, declarations)
    try trim.run()
  }
}
