internal import SharedBreaker

/// Catching up, when a session begins.
extension FleetSession {
  /// Exchanges with the server all that either has missed.
  func catchUp(after feed: LocalFeed) throws(RelayTrouble) {
    // What changes from here on is told later; what changed before is found in the store.
    _ = feed.take()
    let state = try Self.served { () throws(RedisError) in try server.state() }
    guard state.epoch == position.epoch else { throw .behind("the server has lost its data") }
    position.number = state.number
    position.entry = state.entry
    for refusal in state.refusals { context.refuse(refusal) }
    for (name, host, evidence) in state.evidence {
      do throws(Refusal) {
        try view.take(evidence, of: name, from: host)
      } catch {
        context.refuse(error)
      }
    }
    try Self.served { () throws(RedisError) in
      try stream.check(after: position.entry)
      try server.forget(state.pastEvidence)
    }
    context.onStep(.read)
    _ = try forgetImpossibleCommands()
    let own = try Self.stored { () throws(StoreError) in try claim.commands() }
    try noteEpoch()
    try apply(
      state.unheard(knowing: own).map { .remembered($0) }, suspecting: view.suspects)
    context.onStep(.remembered)
    let lost = state.lost(knowing: own)
    // What is overtaken here was so before; nobody has just given it.
    _ = try Self.served { () throws(RedisError) in try server.tell(lost, lineage: lineage) }
    context.onStep(.toldLost)
    try tellEvidence()
    try describeAll()
    context.onStep(.described)
    while !context.isStopped {
      guard try tellPendingCommands() else { break }
    }
    try listen()
    context.onStep(.listening)
    scheduleBeat()
  }

  /// Notes where the host has begun to read, if the stream is another one than before.
  private func noteEpoch() throws(RelayTrouble) {
    let place = position
    _ = try Self.stored { () throws(StoreError) in try claim.apply([], position: place) }
  }

  /// Tells which breakers are open here, and which no longer are.
  private func tellEvidence() throws(RelayTrouble) {
    let open = try Self.stored { () throws(StoreError) in
      try context.store.snapshots(in: .open).filter(\.policy.concernsFleet)
    }
    var changes: [String: LocalChange?] = [:]
    for snapshot in open where !isTold(snapshot) {
      changes[snapshot.name] = try latestChange(of: snapshot.name)
    }
    let names = Set(open.map(\.name))
    for name in view.told.keys where !names.contains(name) {
      // Without a history, nobody knows whether a probe has succeeded.
      let change = try latestChange(of: name)
      changes[name] = change == .recovered ? .recovered : .closed
    }
    try tell(changes)
  }

  /// Whether the server knows for how long a breaker stays open, to the second.
  private func isTold(_ snapshot: BreakerSnapshot) -> Bool {
    guard let told = view.told[snapshot.name], told.generation == snapshot.generation else {
      return false
    }
    let until = snapshot.openEndsIn.map { now + DurationText.milliseconds($0) } ?? now
    return (until - told.until).magnitude < 1_000
  }

  /// The latest change of a breaker that concerns the fleet.
  private func latestChange(of name: String) throws(RelayTrouble) -> LocalChange? {
    let entries = try Self.stored { () throws(StoreError) in
      try context.store.history(of: name, limit: 32)
    }
    return entries.last { $0.change.stateAfter != nil || $0.change == .extended }
      .flatMap { LocalChange($0) }
  }

  private func describeAll() throws(RelayTrouble) {
    let now = now
    let breakers = try Self.stored { () throws(StoreError) in
      try context.store.snapshots().compactMap { FleetBreaker($0, at: now) }
    }
    context.manager.showLife()
    undescribed = []
    try Self.served { () throws(RedisError) in try server.describe(description, breakers) }
  }
}
