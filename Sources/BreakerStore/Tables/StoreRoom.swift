/// How many breakers a store has room for.
enum StoreRoom {
  /// Where nobody says otherwise: some hundred megabytes, which are listed in a few seconds.
  static let usualBreakers: Int64 = 200_000

  /// Whether there is room for one more breaker.
  ///
  /// A row is numbered, and no number is given twice: rows are counted only once the numbers have
  /// reached the limit.
  static func isLeft(on connection: Connection, for limit: Int64) throws(StoreError) -> Bool {
    let query = try connection.statement(.breakersAtLimit)
    query.bind(1, limit)
    return try query.first { $0.integer(0) } ?? 0 < limit
  }

  static func error(path: String, limit: Int64) -> StoreError {
    StoreError(
      .tooManyBreakers,
      "the store \(StoreError.visible(path)) has \(limit) breakers, and makes no other:"
        + " delete those that nobody uses, and look who makes so many")
  }
}
