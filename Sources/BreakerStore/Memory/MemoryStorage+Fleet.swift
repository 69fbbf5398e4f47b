package import BreakerCore

/// What the memory of a process knows of its fleet; the owner of the storage has the lock.
struct MemoryFleet {
  var fleet: StoredFleet?

  /// The relay, by a number, and whether its process has ended.
  fileprivate var relay: (number: Int64, isGone: @Sendable () -> Bool)?
  fileprivate var lastRelay: Int64 = 0
  fileprivate var registers: [NameBytes: [FleetAspect: FleetRegister]] = [:]
  private(set) var pending: [PendingOrder] = []
  private var lastID: Int64 = 0

  /// Notes a command that is given on this host, and keeps it for the relay.
  mutating func give(_ command: GivenCommand, to name: String, at now: Moment) {
    guard var fleet else { return }
    let key = NameBytes(name)
    var ledger = FleetLedger(stamp: fleet.stamp, registers: registers[key] ?? [:])
    guard let order = command.order(to: name, of: fleet, in: ledger, at: now) else { return }
    ledger.gave(order)
    registers[key] = ledger.registers
    fleet.stamp = ledger.stamp
    self.fleet = fleet
    lastID += 1
    pending.removeAll { $0.order.isOvertaken(by: order) }
    pending.append(PendingOrder(id: lastID, order: order))
  }

  var isRelayHeld: Bool { relay.map { !$0.isGone() } ?? false }

  mutating func deletePending(through id: Int64) { pending.removeAll { $0.id <= id } }

  mutating func correct(stampsAbove latest: Int64, of host: String) -> Int64 {
    let known = registers.values.flatMap { $0.values.map(\.order) } + pending.map(\.order)
    let correction = FleetCorrection(known, above: latest, of: host)
    func corrected(_ order: FleetOrder) -> FleetOrder? {
      order.stamp <= latest ? order : correction.corrected(order)
    }
    registers = registers.mapValues {
      $0.compactMapValues { register in
        corrected(register.order).map { FleetRegister($0, isInForce: register.isInForce) }
      }
    }
    pending = pending.compactMap { pending in
      corrected(pending.order).map { PendingOrder(id: pending.id, order: $0) }
    }
    return correction.highest
  }

  mutating func leave() {
    fleet = nil
    registers = [:]
    pending = []
  }

  /// The latest commands, one for each aspect of each breaker.
  var orders: [FleetOrder] {
    registers.sorted { $0.key.bytes.lexicographicallyPrecedes($1.key.bytes) }.flatMap { one in
      one.value.sorted { $0.key.text < $1.key.text }.map(\.value.order)
    }
  }

  /// Carries every command over into a boot that has begun by now.
  mutating func carryOver(to now: Moment) {
    registers = registers.mapValues { ledger in
      ledger.mapValues { FleetRegister($0.order.carriedOver(to: now), isInForce: $0.isInForce) }
    }
    for index in pending.indices {
      pending[index].order = pending[index].order.carriedOver(to: now)
    }
  }
}

extension MemoryStorage {
  package func fleet() -> StoredFleet? {
    lock.withLock {
      var fleet = fleetMemory.fleet
      fleet?.waiting = fleetMemory.pending.count
      return fleet
    }
  }

  package func fleetOrders() -> [FleetOrder] {
    lock.withLock { fleetMemory.orders.filter { !$0.isForgotten(at: clock.moment) } }
  }

  package func pendingOrders(limit: Int) -> [PendingOrder] {
    lock.withLock { Array(fleetMemory.pending.prefix(max(0, limit))) }
  }

  package func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    try carryOut(request, by: author)
  }

  /// The same, as somebody does it.
  package func carryOut(
    _ request: FleetRequest, by author: HistoryAuthor
  ) throws(StoreError) -> FleetChanges {
    let changes = try lock.withLock { () throws(StoreError) in
      let place = MemoryPlace(self, author, at: clock.moment)
      var hearing = try FleetHearing(request, of: fleetMemory.fleet, in: place)
      try hearing.run()
      fleetMemory.fleet = hearing.fleet
      if let last = request.published { fleetMemory.deletePending(through: last) }
      return hearing.changes
    }
    if !changes.events.isEmpty { listeners.wake() }
    return changes
  }

  package func leaveFleet() -> Bool {
    lock.withLock {
      defer { fleetMemory.leave() }
      return fleetMemory.fleet != nil
    }
  }

  package func holdRelay() -> RelayHold? { holdRelay { false } }

  /// The same, for a process that may end without giving the right back.
  package func holdRelay(isGone: @escaping @Sendable () -> Bool) -> RelayHold? {
    lock.withLock {
      guard !fleetMemory.isRelayHeld else { return nil }
      fleetMemory.lastRelay += 1
      let number = fleetMemory.lastRelay
      fleetMemory.relay = (number, isGone)
      return RelayHold { [self] in
        lock.withLock { if fleetMemory.relay?.number == number { fleetMemory.relay = nil } }
      }
    }
  }

  package func isRelayHeld() -> Bool { lock.withLock { fleetMemory.isRelayHeld } }

  package func lineage() -> Int64 { identity }
}

/// The memory of a process, as a place to hear of other hosts; its user has the lock.
private struct MemoryPlace: FleetPlace {
  private let storage: MemoryStorage
  private let author: HistoryAuthor
  let now: Moment
  private(set) var hasChanged = false

  init(_ storage: MemoryStorage, _ author: HistoryAuthor, at now: Moment) {
    self.storage = storage
    self.author = author
    self.now = now
  }

  func registers(of name: String) -> [FleetAspect: FleetRegister] {
    storage.fleetMemory.registers[NameBytes(name)] ?? [:]
  }

  func hasRoomForStrangers() -> Bool {
    storage.fleetMemory.registers.count < StoreRoom.usualBreakers
  }

  mutating func keep(_ register: FleetRegister) {
    guard let aspect = register.aspect else { return }
    hasChanged = true
    storage.fleetMemory.registers[NameBytes(register.order.name), default: [:]][aspect] = register
  }

  mutating func correct(stampsAbove latest: Int64, of host: String) -> Int64 {
    hasChanged = true
    return storage.fleetMemory.correct(stampsAbove: latest, of: host)
  }

  mutating func step(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> Void
  ) -> [BreakerEvent]? {
    let before = storage.revision
    let done = storage.step(name, orCreate: orCreate, by: author, body)
    hasChanged = hasChanged || storage.revision != before
    return done?.events
  }
}
