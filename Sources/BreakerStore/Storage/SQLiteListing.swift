package import BreakerCore

/// Reading many breakers, on the connection for it, so that no writer of this process waits.
extension SQLiteStorage {
  package func list(
    beginningWith prefix: String, in state: BreakerState?
  ) throws(StoreError) -> [ListedBreaker] {
    lookAfterFile()
    return try readAside { connection throws(StoreError) in
      let query = try connection.statement(state == nil ? .namesByPrefix : .namesByState)
      query.bind(1, prefix)
      if let state {
        let origins = BreakerState.allCases.filter { $0.mayBecome(state) }
        query.bind(2, origins.first.map { Int64($0.rawValue) })
        query.bind(3, origins.last.map { Int64($0.rawValue) })
      }
      return try query.rows { ListedBreaker(id: $0.integer(0), name: $0.text(1) ?? "") }
    }
  }

  package func read(
    _ listed: some Collection<ListedBreaker>
  ) throws(StoreError) -> [StoredBreaker?] {
    try readAside { connection throws(StoreError) in
      var breakers: [StoredBreaker?] = []
      breakers.reserveCapacity(listed.count)
      for one in listed {
        let found = try BreakerTable.find(one.id, on: connection, clock: clock)
        // In a file that has been put in the place of another an id is another breaker's.
        let isSame = found.map { StoreName($0.name) == StoreName(one.name) } ?? false
        breakers.append(isSame ? found.map(upToDate) : nil)
      }
      return breakers
    }
  }
}
