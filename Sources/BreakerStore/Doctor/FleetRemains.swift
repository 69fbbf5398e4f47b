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
      registers = try FleetTable.registers(of: nil, on: reader, in: header, at: now)
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
    let syncError = try storage.write(wait: .usual) { place throws(StoreError) in
      for register in registers {
        try place.keep(register)
        fleet.stamp = max(fleet.stamp, register.order.stamp)
      }
      for order in pending { try place.append(order) }
      try place.save(fleet)
    }.syncError
    if let syncError { throw syncError }
  }
}
