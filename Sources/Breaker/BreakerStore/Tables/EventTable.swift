@_spi(Relay) internal import BreakerCore

/// How many events are kept; they are in the order in which they were recorded.
enum EventTable {
  /// How many events are kept of one breaker; `RecordedEvent.mostOfAll` limits all breakers together.
  static let eventsOfOneBreaker: Int64 = 500

  /// How many events are recorded between two deletions of old ones; a breaker may have that many more.
  static let eventsBetweenTrims: Int64 = 32

  /// Policy changes have a limit of their own, because callers that disagree create many of them.
  static let policyEventsOfOneBreaker: Int64 = 100
}

extension ReadTransaction {
  /// The newest `limit` events after an instant, oldest first.
  func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) throws(StoreError) -> [RecordedEvent] {
    let query = try connection.statement(.history)
    query.bind(1, name)
    query.bind(2, sinceMilliseconds)
    query.bind(3, limit.map { Int64($0) } ?? -1)
    return try query.rows { RecordedEvent($0) }.reversed()
  }

  /// The oldest `limit` events after one, in the order in which they happened.
  func events(
    after id: Int64, of name: String?, limit: Int
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

extension WriteTransaction {
  /// Adds an event to the history; call `record(_:of:)`, which also notes what has to follow.
  func append(_ event: BreakerEvent, of name: String) throws(StoreError) {
    let insert = try connection.statement(.insertEvent)
    insert.bind(1, event.atMilliseconds)
    insert.bind(2, name)
    insert.bind(3, Int64(event.change.kind.rawValue))
    insert.bind(4, event.change.wireFrom)
    insert.bind(5, event.change.wireTo)
    insert.bind(6, event.reason)
    insert.bind(7, Int64(user.author.pid))
    insert.bind(8, user.author.program)
    insert.bind(9, event.origin)
    insert.bind(10, user.author.mandate.user)
    insert.bind(11, user.author.mandate.command)
    insert.bind(12, event.beginsOutage ? 1 : 0)
    insert.bind(13, event.giver?.said)
    insert.bind(14, event.giver?.verifiedUser)
    insert.bind(15, event.giver.map { $0.isProven ? 1 : 0 })
    let id = try insert.rows { $0.integer(0) }.first ?? 0
    if id % EventTable.eventsBetweenTrims == 0 { try trim(to: id) }
  }

  /// Deletes the oldest events of each breaker that had one since the last time.
  ///
  /// Searching for the 500th event of a breaker at each of its events would be wasteful.
  private func trim(to id: Int64) throws(StoreError) {
    let latest = try connection.statement(.breakersOfEventsAfter)
    latest.bind(1, id - EventTable.eventsBetweenTrims)
    for (name, isPolicy) in try latest.rows({ ($0.text(0) ?? "", $0.integer(1)) }) {
      let ofOne = try connection.statement(.trimEventsOfBreaker)
      ofOne.bind(1, name)
      ofOne.bind(2, isPolicy)
      ofOne.bind(
        3, isPolicy == 1 ? EventTable.policyEventsOfOneBreaker : EventTable.eventsOfOneBreaker)
      try ofOne.run()
    }
    let ofAll = try connection.statement(.trimEvents)
    ofAll.bind(1, id - RecordedEvent.mostOfAll)
    try ofAll.run()
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
      previous: row.integerOrNil(9), origin: row.text(10), giver: FleetGiver(row),
      mandate: HistoryAuthor.Mandate(user: row.text(11), command: row.text(12)),
      beginsOutage: row.integerOrNil(13).map { $0 != 0 })
  }
}

extension FleetGiver {
  /// Reads the giver of the command that an event carried out.
  fileprivate init?(_ row: Statement) {
    guard let host = row.text(10), let said = row.text(14) else { return nil }
    self.init(
      said: said, verifiedUser: row.text(15), isProven: row.integer(16) != 0, host: host)
  }
}

/// How far hooks have got.
extension ReadTransaction {
  /// How far a hook has got; nil if it has never been asked for.
  func hook(_ name: String) throws(StoreError) -> HookRecord? {
    let query = try connection.statement(.hook)
    query.bind(1, name)
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
}

extension WriteTransaction {
  /// Writes how far a hook has got.
  func save(_ record: HookRecord, of name: String) throws(StoreError) {
    let save = try connection.statement(.saveHook)
    save.bind(1, name)
    save.bind(2, record.handled)
    save.bind(3, record.failures)
    save.bind(4, record.claim)
    save.bind(5, record.owner)
    save.bind(10, record.boot)
    save.bind(11, record.until.nanoseconds)
    try save.run()
  }
}
