internal import BreakerCore

/// How a breaker's tally of states is stored in its row; only a change of state writes it.
enum TallyRow {
  static let columns = [
    "state_since_ns", "state_since_boot", "closed_ns", "open_ns", "half_open_ns", "to_closed",
    "to_open", "to_half_open",
  ]

  static let assignments = columns.enumerated().map { "\($1) = ?\($0 + 2)" }
    .joined(separator: ", ")

  /// Reads the columns, and the boot in which the state began.
  static func read(_ row: inout RowReader) -> (tally: StateTally, boot: Int64) {
    var tally = StateTally()
    tally.since = row.instant()
    let boot = row.integer()
    tally.nanoseconds.closed = row.count()
    tally.nanoseconds.open = row.count()
    tally.nanoseconds.halfOpen = row.count()
    tally.entries.closed = row.count()
    tally.entries.open = row.count()
    tally.entries.halfOpen = row.count()
    return (tally, boot)
  }

  /// Writes the tally of a breaker whose state has changed in this boot.
  static func save(
    _ breaker: StoredBreaker, on connection: Connection, boot: Int64
  ) throws(StoreError) {
    let tally = breaker.record.tally
    let update = try connection.statement(.updateTally)
    update.bind(1, breaker.id)
    update.bind(2, tally.since?.nanoseconds)
    update.bind(3, boot)
    update.bind(4, tally.nanoseconds.closed)
    update.bind(5, tally.nanoseconds.open)
    update.bind(6, tally.nanoseconds.halfOpen)
    update.bind(7, tally.entries.closed)
    update.bind(8, tally.entries.open)
    update.bind(9, tally.entries.halfOpen)
    try update.run()
  }
}
