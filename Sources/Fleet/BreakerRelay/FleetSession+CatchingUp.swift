@_spi(Relay) internal import SharedBreaker

/// Catching up at the beginning of a session.
extension FleetSession {
  /// Exchanges with the server everything that either side has missed.
  func catchUp(after feed: LocalFeed) throws(RelayTrouble) {
    // Changes from here on are told later; earlier ones are found in the store.
    _ = feed.take()
    let own = try known()
    let state = try server.state(knowing: own)
    guard state.epoch == position.epoch else { throw .behind("the server has lost its data") }
    position.number = state.number
    position.entry = state.entry
    take(state)
    try stream.check(after: position.entry)
    try server.forgetPast(in: state)
    context.onStep(.read)
    withdrawals = try Self.stored { () throws(StoreError) in try claim.withdrawals() }
    try correctImpossibleStamps(knowing: state)
    heard = Self.heard(
      try known(),
      without: try Self.stored { () throws(StoreError) in try claim.unfollowedCommands() })
    try noteEpoch()
    try apply(
      state.unheard.map { .remembered($0) }
        + state.news(ofHoldsExceptOn: context.options.host),
      suspecting: try plan(view.suspects))
    context.onStep(.remembered)
    // Commands that are overtaken here were so before, so they are not reported.
    _ = try server.tell(state.lost(from: context.options.host), lineage: lineage, at: now)
    context.onStep(.toldLost)
    try tellEvidence()
    try describeAll()
    try tellHolds()
    try noteHosts()
    context.onStep(.described)
    while !context.isStopped {
      guard try tellPendingCommands() else { break }
    }
    try listen()
    context.onStep(.listening)
    // The next beat tells how far this host has read.
    scheduleBeat(after: 0)
  }

  /// Takes over what the server has, as far as it is proven.
  private func take(_ state: FleetState) {
    for refusal in state.refusals { context.refuse(refusal) }
    for (name, host, evidence) in state.evidence {
      do throws(Refusal) {
        try view.take(evidence, of: name, from: host)
      } catch {
        context.refuse(error)
      }
    }
    for (name, host, hold) in state.holds where host == context.options.host {
      view.hasTold(hold, of: name, at: state.now)
    }
  }

  /// Looks again at what the server has, and puts what this host knows to be right in its place.
  ///
  /// A client that can write to the server may have taken it away, or put something else there.
  func look() throws(RelayTrouble) {
    scheduleLook()
    let state = try server.state(knowing: try known())
    guard state.epoch == position.epoch else { throw .behind("the server has lost its data") }
    view.forgetTold()
    take(state)
    try apply(
      state.unheard.map { Self.news(of: $0) }
        + state.news(ofHoldsExceptOn: context.options.host),
      suspecting: [])
    _ = try server.tell(state.lost(from: context.options.host), lineage: lineage, at: now)
    try tellEvidence()
    try tellHolds()
    try noteHosts()
  }

  /// Remembers the hosts that are there, so that none is forgotten with the server's data.
  private func noteHosts() throws(RelayTrouble) {
    _ = try HostRoll(context, leavingOutKnown: true) { words throws(RelayTrouble) in
      try server.ask(words)
    }
  }

  /// Not all relays look at the same moment.
  func scheduleLook() {
    nextLook = .now + context.options.lookInterval * Double.random(in: 0.5...1)
  }

  /// Notes where the host has begun to read, in case the stream is a new one.
  private func noteEpoch() throws(RelayTrouble) {
    let place = position
    _ = try Self.stored { () throws(StoreError) in try claim.apply([], position: place) }
  }

  /// Tells which breakers are open here, and which are no longer open.
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
      // Without a history it is unknown whether a probe has succeeded.
      let change = try latestChange(of: name)
      changes[name] = change == .recovered ? .recovered : .closed
    }
    try tell(changes)
  }

  /// Whether the server knows to the second for how long a breaker stays open.
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
    var breakers: [FleetBreaker] = []
    for snapshot in try Self.stored({ () throws(StoreError) in try context.store.snapshots() }) {
      if snapshot.hold != nil { held.insert(snapshot.name) }
      if let breaker = FleetBreaker(snapshot, at: now) { breakers.append(breaker) }
    }
    context.manager.showLife()
    undescribed = []
    mark.sentAt = now
    mark.heard = heard.told()
    try server.describe(mark, breakers)
  }
}
