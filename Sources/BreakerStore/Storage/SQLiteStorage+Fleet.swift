package import BreakerCore

/// What the store knows of its fleet.
extension SQLiteStorage {
  package func fleet() throws(StoreError) -> StoredFleet? {
    try checkIdentity()
    return try read { connection throws(StoreError) in try FleetTable.find(on: connection) }
  }

  package func fleetOrders() throws(StoreError) -> [FleetOrder] {
    try checkIdentity()
    return try read { connection throws(StoreError) in
      try FleetTable.registers(
        on: connection, in: connection.header(clock), at: clock.moment)
    }.map(\.order).filter { !$0.isForgotten(at: clock.moment) }
  }

  package func pendingOrders(limit: Int) throws(StoreError) -> [PendingOrder] {
    try checkIdentity()
    return try read { connection throws(StoreError) in
      try FleetTable.pending(
        limit, on: connection, in: connection.header(clock), at: clock.moment)
    }
  }

  package func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    // A relay asks often, and need not hold up those who write.
    if let known = try fleet(), request.isMet(by: known) { return FleetChanges() }
    var (changes, syncError) = try write { transaction throws(StoreError) in
      let connection = transaction.connection
      let before = try FleetTable.find(on: connection)
      var hearing = try FleetHearing(request, of: before, in: FleetTransaction(transaction))
      try hearing.run()
      if hearing.fleet != before { try FleetTable.save(hearing.fleet, on: connection) }
      let isPublished = request.published != nil && before?.waiting ?? 0 > 0
      if let last = request.published, isPublished {
        try FleetTable.deletePending(through: last, on: connection)
      }
      let hasChanged = hearing.place.hasChanged || isPublished || hearing.fleet != before
      // Each commit raises a revision, so that others read one breaker again instead of all.
      if hasChanged, !hearing.place.hasRaisedRevision {
        try BreakerTable.raiseRevisionOfAny(on: connection)
      }
      return hearing.changes
    }
    changes.syncError = syncError
    return changes
  }

  package func leaveFleet() throws(StoreError) -> Bool {
    try write { transaction throws(StoreError) in
      let connection = transaction.connection
      guard try FleetTable.find(on: connection) != nil else { return false }
      try FleetTable.deleteAll(on: connection)
      try BreakerTable.raiseRevisionOfAny(on: connection)
      return true
    }.answer
  }

  package func holdRelay() throws(StoreError) -> RelayHold? {
    let path = try storePath()
    guard let lock = try StoreLock.claimed(path) else { return nil }
    let forkDepth = ForkGuard.depth
    // A child that was forked meanwhile has the lock too, but is not the relay.
    return RelayHold { if ForkGuard.depth == forkDepth { lock.release() } else { lock.letGo() } }
  }

  package func isRelayHeld() throws(StoreError) -> Bool {
    try StoreLock.isClaimed(try storePath())
  }

  package func lineage() throws(StoreError) -> Int64 {
    try checkIdentity()
    return try openToWrite(until: deadline(of: .usual)) { $0.header.lineage }
  }

  /// The path of the store, with the directories resolved.
  private func storePath() throws(StoreError) -> String {
    try Patience.bounded(by: deadline(of: .usual)) { () throws(StoreError) in
      try holding(writing) { () throws(StoreError) in try openedStore().path }
    }
  }
}

/// A transaction that hears of other hosts.
private struct FleetTransaction: FleetPlace {
  private let transaction: WriteTransaction
  private(set) var hasChanged = false

  /// Whether a breaker has been written, with a revision of the transaction.
  private(set) var hasRaisedRevision = false

  init(_ transaction: WriteTransaction) { self.transaction = transaction }

  var now: Moment { transaction.now }

  private var header: StoreHeader { transaction.connection.header(transaction.clock) }

  func registers(of name: String) throws(StoreError) -> [FleetAspect: FleetRegister] {
    try FleetTable.registers(of: name, on: transaction.connection, in: header, at: now)
  }

  func hasRoomForStrangers() throws(StoreError) -> Bool {
    try transaction.connection.integer("SELECT count(*) FROM fleet_command") < transaction.room
  }

  mutating func keep(_ register: FleetRegister) throws(StoreError) {
    hasChanged = true
    try FleetTable.keep(register, on: transaction.connection, in: header)
  }

  mutating func correct(stampsAbove latest: Int64, of host: String) throws(StoreError) -> Int64 {
    hasChanged = true
    return try FleetTable.correct(
      stampsAbove: latest, of: host, on: transaction.connection, in: header, at: now)
  }

  mutating func step(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> Void
  ) throws(StoreError) -> [BreakerEvent]? {
    // Each is a group of its own, because a breaker may be news more than once.
    var group = StepGroup(in: transaction, remembered: OwnCommits())
    let result = try withoutActuallyEscaping(body) { body throws(StoreError) -> StepResult? in
      let queued = QueuedStep(name, orCreate: orCreate, body)
      defer { queued.end() }
      try group.run([queued])
      if let error = queued.error { throw error }
      return queued.result
    }
    if group.hasWritten {
      hasChanged = true
      hasRaisedRevision = true
    }
    return result?.events
  }
}
