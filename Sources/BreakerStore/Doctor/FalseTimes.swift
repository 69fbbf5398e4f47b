internal import BreakerCore

/// Finds times that no process with the host's clock can have written.
enum FalseTimes {
  /// The names of the breakers that hold such times.
  static func breakers(
    on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> [String] {
    let query = try connection.prepare("SELECT \(BreakerRow.columns) FROM breaker ORDER BY name")
    return try query.rows { row throws(StoreError) -> String? in
      let breaker = try BreakerTable.breaker(row, on: connection, clock: clock)
      return breaker.hasFalseTimesInFile ? breaker.name : nil
    }.compactMap { $0 }
  }

  static func finding(
    on connection: Connection, clock: StoreClock
  ) throws(StoreError) -> StoreFinding? {
    let names = try breakers(on: connection, clock: clock)
    guard let first = names.first else { return nil }
    let who = names.count == 1 ? first : "\(first) and \(names.count - 1) more"
    return StoreFinding(
      .clock, .warning, "the times of \(who) lie further ahead than any policy allows",
      means: "a process with a false clock, such as libfaketime's, wrote them: no program believes"
        + " them, and what they would end is over",
      repair: "correct them", [.correctTimes])
  }
}

extension SQLiteStorage {
  /// Writes what every process assumes instead of false times, as the next call would.
  func correctTimes() throws(StoreError) {
    let names = try readFile(isLong: false) { connection throws(StoreError) in
      try FalseTimes.breakers(on: connection, clock: clock)
    }
    for name in names { _ = try transact(name, orCreate: false, wait: .usual) { _ in } }
  }
}
