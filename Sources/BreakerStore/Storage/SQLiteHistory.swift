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
      return try query.rows { StoredEvent($0) }.reversed()
    }
  }

  package func events(
    after id: Int64, of name: String?, limit: Int
  ) throws(StoreError) -> EventPage {
    // Those who only listen make no calls that would look after the file.
    checkIdentity()
    return try read { connection throws(StoreError) in
      try EventTable.page(after: id, of: name, limit: limit, on: connection)
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
