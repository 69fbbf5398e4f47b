internal import BreakerCore

/// What a damaged store still tells of its fleet.
struct FleetRemains {
  private var fleet: StoredFleet?
  private var registers: [FleetRegister] = []
  private var pending: [FleetOrder] = []

  init() {}

  /// Reads each table as far as it can be read; an earlier version has none of them.
  init(on reader: Connection, clock: StoreClock) {
    let (header, now) = (reader.header(clock), clock.moment)
    do throws(StoreError) {
      fleet = try FleetTable.find(on: reader)
      registers = try FleetTable.registers(on: reader, in: header, at: now)
    } catch {
      // Other hosts tell again what is missing.
    }
    do throws(StoreError) {
      pending = try FleetTable.pending(.max, on: reader, in: header, at: now).map(\.order)
    } catch {
      // Nobody else knows of these commands, but who gave them can see what their host does.
    }
  }

  /// Takes it over, but for how far the relay had read: it has to hear again what the damage took.
  func bring(to storage: SQLiteStorage) throws(StoreError) {
    guard var fleet else { return }
    fleet.position = nil
    let syncError = try storage.write { transaction throws(StoreError) in
      let connection = transaction.connection
      let header = connection.header(transaction.clock)
      for register in registers {
        try FleetTable.keep(register, on: connection, in: header)
        fleet.stamp = max(fleet.stamp, register.order.stamp)
      }
      for order in pending { try FleetTable.insert(order, on: connection, in: header) }
      try FleetTable.save(fleet, on: connection)
    }.syncError
    if let syncError { throw syncError }
  }
}
