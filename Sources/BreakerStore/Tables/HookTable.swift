internal import BreakerCore

/// Hooks and how far they have got, inside the caller's transaction.
enum HookTable {
  /// The result of a step, and whether the record has to be written.
  struct Change {
    var record: HookRecord
    var turn: HookTurn
    var hasChanged: Bool
  }

  /// Applies a step to the record of a hook; nothing is written yet.
  static func change(
    _ step: HookStep, on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> Change {
    let found = try find(step.hook, on: connection)
    var record = if let found { found } else { try begun(step, on: connection) }
    let header = connection.header(clock)
    let turn = try record.take(
      step, at: clock.instant, boot: header.boot.number, lineage: header.lineage,
      isGone: ProcessTable.isGone
    ) { (last: Int64) throws(StoreError) -> StoredEvent? in
      try EventTable.page(after: last, of: step.name, limit: 1, on: connection).events.first
    }
    return Change(record: record, turn: turn, hasChanged: record != found)
  }

  /// The record of a hook that has none in the file.
  private static func begun(
    _ step: HookStep, on connection: Connection
  ) throws(StoreError) -> HookRecord {
    let page = try EventTable.page(after: .max, of: nil, limit: 0, on: connection)
    return HookRecord(for: step, newest: page.newest)
  }

  private static func find(
    _ hook: String, on connection: Connection
  ) throws(StoreError) -> HookRecord? {
    let query = try connection.statement(.hook)
    query.bind(1, hook)
    return try query.first { row in
      var record = HookRecord(handled: row.integer(0))
      record.failures = row.integer(1)
      record.claim = row.integer(2)
      record.owner = row.integerOrNil(3).map {
        ProcessIdentity(
          pid: Int32(truncatingIfNeeded: $0), startTicks: UInt64(bitPattern: row.integer(4)),
          pidNamespace: UInt64(bitPattern: row.integer(5)))
      }
      record.boot = row.integer(6)
      record.until = Instant(nanoseconds: row.integer(7))
      return record
    }
  }

  static func save(
    _ record: HookRecord, of hook: String, on connection: Connection
  ) throws(StoreError) {
    let save = try connection.statement(.saveHook)
    save.bind(1, hook)
    save.bind(2, record.handled)
    save.bind(3, record.failures)
    save.bind(4, record.claim)
    save.bind(5, record.owner.map { Int64($0.pid) })
    save.bind(6, record.owner.map { Int64(bitPattern: $0.startTicks) })
    save.bind(7, record.owner.map { Int64(bitPattern: $0.pidNamespace) })
    save.bind(8, record.boot)
    save.bind(9, record.until.nanoseconds)
    try save.run()
  }
}
