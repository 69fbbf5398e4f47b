internal import BreakerCore

extension SQLiteStorage {
  /// The limit if nobody sets another.
  package static var usualBreakers: Int64 { StoreRoom.usualBreakers }
}

/// How many breakers a store has room for.
enum StoreRoom {
  /// The limit if nobody sets another: on the order of a hundred megabytes, which take a few
  /// seconds to list.
  static let usualBreakers: Int64 = 200_000

  /// Whether there is room for one more breaker.
  ///
  /// Row numbers are never reused, so rows are counted only once the numbers reach the limit.
  static func isLeft(on connection: Connection, for limit: Int64) throws(StoreError) -> Bool {
    let query = try connection.statement(.breakersAtLimit)
    query.bind(1, limit)
    return try query.first { $0.integer(0) } ?? 0 < limit
  }

  static func error(path: String, limit: Int64) -> StoreError {
    StoreError(
      .tooManyBreakers,
      "the store \(StoreError.visible(path)) is full: it has"
        + " \(CountedNoun.text(limit, "breaker")), which is the limit: delete those that nobody uses,"
        + " and find out who creates so many")
  }
}
