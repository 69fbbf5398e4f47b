internal import BreakerCore

/// What a store knows of its fleet, inside the caller's transaction.
enum FleetTable {
  static func find(on connection: Connection) throws(StoreError) -> StoredFleet? {
    try connection.statement(.fleet).first { row in
      var fleet = StoredFleet(fleet: row.text(0) ?? "", host: row.text(1) ?? "")
      fleet.stamp = row.integer(2)
      if let epoch = row.text(3), let number = row.integerOrNil(4), let entry = row.text(5) {
        fleet.position = FleetPosition(epoch: epoch, number: number, entry: entry)
      }
      fleet.isConnected = row.integer(6) != 0
      fleet.changedAtMilliseconds = row.integerOrNil(7)
      fleet.problem = row.text(8)
      fleet.waiting = Int(row.integer(9))
      return fleet
    }
  }

  static func save(_ fleet: StoredFleet, on connection: Connection) throws(StoreError) {
    let save = try connection.statement(.saveFleet)
    save.bind(1, fleet.fleet)
    save.bind(2, fleet.host)
    save.bind(3, fleet.stamp)
    save.bind(4, fleet.position?.epoch)
    save.bind(5, fleet.position?.number)
    save.bind(6, fleet.position?.entry)
    save.bind(7, fleet.isConnected ? 1 : 0)
    save.bind(8, fleet.changedAtMilliseconds)
    save.bind(9, fleet.problem)
    try save.run()
  }

  /// Deletes everything that is known of the fleet.
  static func deleteAll(on connection: Connection) throws(StoreError) {
    try connection.execute(
      "DELETE FROM fleet; DELETE FROM fleet_command; DELETE FROM fleet_outbox",
      to: "leave its fleet")
  }

  /// The latest command about each aspect of a breaker, or of every breaker.
  static func registers(
    of name: String?, on connection: Connection, in header: StoreHeader, at now: Moment
  ) throws(StoreError) -> [FleetRegister] {
    let query = try connection.statement(name == nil ? .registers : .registersOfBreaker)
    if let name { query.bind(1, name) }
    return try query.rows { row in
      FleetOrderColumns.read(row, from: 1, in: header, at: now).map {
        FleetRegister($0, isInForce: row.integer(0) != 0)
      }
    }.compactMap { $0 }
  }

  static func countOfRegisters(on connection: Connection) throws(StoreError) -> Int64 {
    try connection.integer("SELECT count(*) FROM fleet_command")
  }

  /// Keeps a command in the place of an earlier one about the same aspect.
  static func keep(
    _ register: FleetRegister, on connection: Connection, in header: StoreHeader
  ) throws(StoreError) {
    guard let aspect = register.aspect else { return }
    let save = try connection.statement(.saveRegister)
    save.bind(1, aspect.text)
    save.bind(2, register.isInForce ? 1 : 0)
    FleetOrderColumns.bind(register.order, from: 3, to: save, in: header)
    try save.run()
  }

  /// Keeps a command for the relay.
  static func insert(
    _ order: FleetOrder, on connection: Connection, in header: StoreHeader
  ) throws(StoreError) {
    let insert = try connection.statement(.insertOrder)
    FleetOrderColumns.bind(order, from: 1, to: insert, in: header)
    try insert.run()
  }

  /// The oldest commands that the relay has yet to publish, to one breaker or to all.
  static func pending(
    _ limit: Int, of name: String? = nil, on connection: Connection, in header: StoreHeader,
    at now: Moment
  ) throws(StoreError) -> [PendingOrder] {
    let query = try connection.statement(.orders)
    query.bind(1, Int64(limit))
    query.bind(2, name)
    return try query.rows { row in
      FleetOrderColumns.read(row, from: 1, in: header, at: now).map {
        PendingOrder(id: row.integer(0), order: $0)
      }
    }.compactMap { $0 }
  }

  /// Deletes every command with a higher stamp, published or not.
  static func deleteOrders(
    stampedAbove stamp: Int64, on connection: Connection
  ) throws(StoreError) {
    for query in [Query.deleteLaterRegisters, .deleteLaterOrders] {
      let delete = try connection.statement(query)
      delete.bind(1, stamp)
      try delete.run()
    }
  }

  static func deletePending(
    _ ids: ClosedRange<Int64>, on connection: Connection
  ) throws(StoreError) {
    let delete = try connection.statement(.deleteOrders)
    delete.bind(1, ids.lowerBound)
    delete.bind(2, ids.upperBound)
    try delete.run()
  }
}
