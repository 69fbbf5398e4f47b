package import BreakerCore

/// What the memory of a process knows of its fleet.
struct MemoryFleet {
  var fleet: StoredFleet?

  /// The relay, by a number, and whether its process has ended.
  fileprivate var relay: (number: Int64, isGone: @Sendable () -> Bool)?
  fileprivate var lastRelay: Int64 = 0
  fileprivate var registers: [NameBytes: [FleetAspect: FleetRegister]] = [:]
  private(set) var pending: [PendingOrder] = []
  private var lastID: Int64 = 0

  /// Notes a command that is given on this host, and keeps it for the relay.
  ///
  /// - Returns: Whether it could be; if not, nothing has changed.
  mutating func give(_ command: GivenCommand, to name: String, at now: Moment) -> Bool {
    let key = NameBytes(name)
    var ledger = FleetLedger(stamp: fleet?.stamp ?? 0, registers: registers[key] ?? [:])
    guard let order = command.order(to: name, of: fleet, in: ledger, at: now) else { return false }
    ledger.gave(order)
    registers[key] = ledger.registers
    fleet?.stamp = ledger.stamp
    lastID += 1
    pending.removeAll { $0.order.isOvertaken(by: order) }
    pending.append(PendingOrder(id: lastID, order: order))
    return true
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
    withState {
      var fleet = $0.fleet.fleet
      fleet?.waiting = $0.fleet.pending.count
      return fleet
    }
  }

  package func fleetOrders() -> [FleetOrder] {
    withState { $0.fleet.orders.filter { !$0.isForgotten(at: clock.moment) } }
  }

  package func pendingOrders(limit: Int) -> [PendingOrder] {
    withState { Array($0.fleet.pending.prefix(max(0, limit))) }
  }

  package func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    try carryOut(request, by: author)
  }

  /// The same, as somebody does it.
  package func carryOut(
    _ request: FleetRequest, by author: HistoryAuthor
  ) throws(StoreError) -> FleetChanges {
    let changes = try withState { state throws(StoreError) in
      let place = MemoryPlace(state, author, at: clock.moment)
      var hearing = try FleetHearing(request, of: state.fleet.fleet, in: place)
      try hearing.run()
      state = hearing.place.state
      state.fleet.fleet = hearing.fleet
      if let last = request.published { state.fleet.deletePending(through: last) }
      return hearing.changes
    }
    if !changes.events.isEmpty { listeners.wake() }
    return changes
  }

  package func leaveFleet() -> Bool {
    withState { state in
      defer { state.fleet.leave() }
      return state.fleet.fleet != nil
    }
  }

  package func holdRelay() -> RelayHold? { holdRelay { false } }

  /// The same, for a process that may end without giving the right back.
  package func holdRelay(isGone: @escaping @Sendable () -> Bool) -> RelayHold? {
    withState { state in
      guard !state.fleet.isRelayHeld else { return nil }
      state.fleet.lastRelay += 1
      let number = state.fleet.lastRelay
      state.fleet.relay = (number, isGone)
      return RelayHold { [self] in
        withState { if $0.fleet.relay?.number == number { $0.fleet.relay = nil } }
      }
    }
  }

  package func isRelayHeld() -> Bool { withState { $0.fleet.isRelayHeld } }

  package func lineage() -> Int64 { identity }
}

/// A copy of the memory of a process, as a place to hear of other hosts.
private struct MemoryPlace: FleetPlace {
  private(set) var state: MemoryState
  private let author: HistoryAuthor
  let now: Moment
  private(set) var hasChanged = false

  init(_ state: MemoryState, _ author: HistoryAuthor, at now: Moment) {
    self.state = state
    self.author = author
    self.now = now
  }

  func registers(of name: String) -> [FleetAspect: FleetRegister] {
    state.fleet.registers[NameBytes(name)] ?? [:]
  }

  func hasRoomForStrangers() -> Bool { state.fleet.registers.count < StoreRoom.usualBreakers }

  mutating func keep(_ register: FleetRegister) {
    guard let aspect = register.aspect else { return }
    hasChanged = true
    state.fleet.registers[NameBytes(register.order.name), default: [:]][aspect] = register
  }

  mutating func correct(stampsAbove latest: Int64, of host: String) -> Int64 {
    hasChanged = true
    return state.fleet.correct(stampsAbove: latest, of: host)
  }

  mutating func step(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> Void
  ) throws(StoreError) -> [BreakerEvent]? {
    let before = state.revision
    let done = try state.step(name, orCreate: orCreate, at: now, by: author, body)
    hasChanged = hasChanged || state.revision != before
    return done?.events
  }
}
