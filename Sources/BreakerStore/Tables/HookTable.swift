internal import BreakerCore

/// Hooks and how far they have got, inside the caller's transaction.
enum HookTable {
  /// The result of a request, and whether the record has to be written.
  struct Change {
    var record: HookRecord
    var turn: HookTurn
    var hasChanged: Bool
  }

  /// Applies a request to the record of a hook; nothing is written yet.
  static func change(
    _ request: HookRequest, on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> Change {
    let found = try find(request.hook, on: connection)
    var record = if let found { found } else { try begun(request, on: connection) }
    let header = connection.header(clock)
    let turn = try record.answer(
      request, at: clock.instant, boot: header.boot.number, lineage: header.lineage,
      isGone: OwnerJudge(of: connection.path).isGone
    ) { (last: Int64) throws(StoreError) -> RecordedEvent? in
      try EventTable.batch(after: last, of: request.name, limit: 1, on: connection).events.first
    }
    return Change(record: record, turn: turn, hasChanged: record != found)
  }

  /// The record of a hook that has none in the file.
  private static func begun(
    _ request: HookRequest, on connection: Connection
  ) throws(StoreError) -> HookRecord {
    let batch = try EventTable.batch(after: .max, of: nil, limit: 0, on: connection)
    return HookRecord(for: request, newest: batch.newest)
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
      record.owner = row.process(3)
      record.boot = row.integer(8)
      record.until = Instant(nanoseconds: row.integer(9))
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
    save.bind(5, record.owner)
    save.bind(10, record.boot)
    save.bind(11, record.until.nanoseconds)
    try save.run()
  }
}
