internal import BreakerCore

/// The events of all breakers, in the order in which they were recorded.
enum EventTable {
  static func batch(
    after id: Int64, of name: String?, limit: Int, on connection: Connection
  ) throws(StoreError) -> EventBatch {
    let empty = try connection.statement(.storeOfEvents).first { row in
      EventBatch(store: row.integer(0), newest: row.integer(1), events: [])
    }
    var batch = empty ?? EventBatch(store: 0, newest: 0, events: [])
    let query = try connection.statement(name == nil ? .eventsAfter : .eventsOfNameAfter)
    query.bind(1, id)
    query.bind(2, Int64(limit))
    if let name { query.bind(3, name) }
    batch.events = try query.rows { RecordedEvent($0) }
    return batch
  }
}

extension RecordedEvent {
  /// Reads the event of a row.
  init(_ row: Statement) {
    self.init(
      id: row.integer(0), atMilliseconds: row.integer(1), name: row.text(2) ?? "",
      change: BreakerChange(
        kind: Int(truncatingIfNeeded: row.integer(3)), from: row.text(4) ?? "",
        to: row.text(5) ?? ""), reason: row.text(6),
      pid: Int32(truncatingIfNeeded: row.integer(7)), program: row.text(8) ?? "",
      previous: row.integerOrNil(9))
  }
}
