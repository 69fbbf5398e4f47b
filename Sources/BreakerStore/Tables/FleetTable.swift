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

  static func registers(
    of name: String, on connection: Connection, in header: StoreHeader, at now: Moment
  ) throws(StoreError) -> [FleetAspect: FleetRegister] {
    let query = try connection.statement(.registersOfBreaker)
    query.bind(1, name)
    let found = try query.rows { row -> (FleetAspect, FleetRegister)? in
      guard let aspect = FleetAspect(text: row.text(1 + FleetOrderColumns.count) ?? ""),
        let order = FleetOrderColumns.read(row, from: 1, in: header, at: now)
      else { return nil }
      return (aspect, FleetRegister(order, isInForce: row.integer(0) != 0))
    }
    return Dictionary(found.compactMap { $0 }) { $1 }
  }

  /// The latest command about each aspect of each breaker.
  static func registers(
    on connection: Connection, in header: StoreHeader, at now: Moment
  ) throws(StoreError) -> [FleetRegister] {
    try connection.statement(.registers).rows { row in
      FleetOrderColumns.read(row, from: 1, in: header, at: now).map {
        FleetRegister($0, isInForce: row.integer(0) != 0)
      }
    }.compactMap { $0 }
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

  /// Notes a command that is given on this host, and keeps it for the relay.
  ///
  /// - Returns: Whether it could be; false if the store belongs to no fleet, or knows no higher
  ///   stamp.
  static func give(
    _ command: GivenCommand, to name: String, on connection: Connection, in header: StoreHeader,
    at now: Moment
  ) throws(StoreError) -> Bool {
    let fleet = try find(on: connection)
    let before = try registers(of: name, on: connection, in: header, at: now)
    var ledger = FleetLedger(stamp: fleet?.stamp ?? 0, registers: before)
    guard let order = command.order(to: name, of: fleet, in: ledger, at: now) else { return false }
    ledger.gave(order)
    for (aspect, register) in ledger.registers where register != before[aspect] {
      try keep(register, on: connection, in: header)
    }
    let raise = try connection.statement(.raiseFleetStamp)
    raise.bind(1, ledger.stamp)
    try raise.run()
    // Otherwise the commands of a long time without other hosts would become ever more.
    for earlier in try pending(.max, of: name, on: connection, in: header, at: now)
    where earlier.order.isOvertaken(by: order) {
      try deletePending(earlier.id, through: earlier.id, on: connection)
    }
    try insert(order, on: connection, in: header)
    return true
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

  /// Forgets or corrects every command with a higher stamp than this.
  ///
  /// - Returns: The highest stamp that a command has then; 0 if there is none.
  static func correct(
    stampsAbove latest: Int64, of host: String, on connection: Connection, in header: StoreHeader,
    at now: Moment
  ) throws(StoreError) -> Int64 {
    let registers = try registers(on: connection, in: header, at: now)
    let pending = try pending(.max, on: connection, in: header, at: now)
    let correction = FleetCorrection(
      registers.map(\.order) + pending.map(\.order), above: latest, of: host)
    for query in [Query.deleteLaterRegisters, .deleteLaterOrders] {
      let delete = try connection.statement(query)
      delete.bind(1, latest)
      try delete.run()
    }
    for register in registers {
      guard let order = correction.corrected(register.order) else { continue }
      try keep(
        FleetRegister(order, isInForce: register.isInForce), on: connection, in: header)
    }
    for pending in pending {
      guard let order = correction.corrected(pending.order) else { continue }
      try insert(order, on: connection, in: header)
    }
    return correction.highest
  }

  static func deletePending(
    _ first: Int64 = 0, through last: Int64, on connection: Connection
  ) throws(StoreError) {
    let delete = try connection.statement(.deleteOrders)
    delete.bind(1, first)
    delete.bind(2, last)
    try delete.run()
  }
}
