internal import BreakerCore

/// What a store keeps for people.
extension SQLiteStorage {
  package func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) throws(StoreError) -> [StoredEvent] {
    try read { connection throws(StoreError) in
      let query = try connection.statement(.history)
      query.bind(1, name)
      query.bind(2, sinceMilliseconds)
      query.bind(3, limit.map { Int64($0) } ?? -1)
      return try query.rows { row in
        StoredEvent(
          id: row.integer(0), atMilliseconds: row.integer(1), name: row.text(2) ?? "",
          kind: BreakerEvent.Kind(rawValue: Int(row.integer(3))) ?? .transition,
          from: row.text(4) ?? "", to: row.text(5) ?? "", reason: row.text(6),
          pid: Int32(truncatingIfNeeded: row.integer(7)), program: row.text(8) ?? "")
      }.reversed()
    }
  }

  package func declarations(of name: String) throws(StoreError) -> [StoredDeclaration] {
    try read { connection throws(StoreError) in
      let query = try connection.statement(.declarations)
      query.bind(1, name)
      return try query.rows { row in
        StoredDeclaration(
          words: row.text(0) ?? "", atMilliseconds: row.integer(1),
          pid: Int32(truncatingIfNeeded: row.integer(2)), program: row.text(3) ?? "")
      }
    }
  }
}
