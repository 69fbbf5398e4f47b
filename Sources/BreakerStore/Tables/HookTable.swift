internal import BreakerCore

/// How far hooks have got, inside the caller's transaction.
enum HookTable {
  static func find(
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
