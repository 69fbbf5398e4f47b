internal import BreakerCore

/// Doing what a relay requests, in one transaction.
struct FleetHearing<Place: FleetPlace> {
  private(set) var place: Place
  private(set) var changes = FleetChanges()

  /// What the store knows of its fleet then.
  private(set) var fleet: StoredFleet

  private let request: FleetRequest

  /// - Throws: If the store belongs to another fleet; nothing was changed then.
  init(_ request: FleetRequest, of fleet: StoredFleet?, in place: Place) throws(StoreError) {
    self.request = request
    self.place = place
    var fleet = fleet ?? StoredFleet(fleet: request.fleet, host: request.host)
    guard fleet.fleet == request.fleet else {
      throw StoreError(
        .other,
        "the store belongs to the fleet \(StoreError.visible(fleet.fleet)): use that name, or run"
          + " 'cbctl fleet leave' first")
    }
    fleet.host = request.host
    self.fleet = fleet
  }

  mutating func run() throws(StoreError) {
    if let latest = request.latestStamp, fleet.stamp > latest {
      fleet.stamp = try place.correct(stampsAbove: latest, of: fleet.host)
      changes.hasForgotten = true
    }
    for news in request.news { try hear(news) }
    if let note = request.note, note != fleet.note {
      fleet.isConnected = note.isConnected
      fleet.problem = note.problem
      fleet.changedAtMilliseconds = place.now.wallMilliseconds
    }
    // A position alone is not worth that every process looks again: who reads from an earlier one
    // reads again what changes nothing.
    let isWorthIt =
      request.news.isEmpty || place.hasChanged || request.position?.epoch != fleet.position?.epoch
    if let position = request.position, isWorthIt { fleet.position = position }
  }

  private mutating func hear(_ news: FleetNews) throws(StoreError) {
    let verdict: FleetVerdict =
      switch news {
      case .command(let command): try obey(command, isRemembered: false)
      case .remembered(let command): try obey(command, isRemembered: true)
      case .suspicion(let name, let hosts):
        try step(name, orCreate: false) { draft in
          let policy = draft.breaker.policy
          return draft.apply { $0.suspected(by: hosts, at: $1, policy: policy) }
            ? .applied : .unneeded
        } ?? .noBreaker
      case .recovery(let name, let host):
        try step(name, orCreate: false) { draft in
          let policy = draft.breaker.policy
          return draft.apply {
            $0.recovered(on: host, at: $1, policy: policy, part: Jitter.drawn())
          } ? .applied : .unneeded
        } ?? .noBreaker
      }
    changes.verdicts.append(verdict)
  }

  private mutating func obey(
    _ command: FleetCommand, isRemembered: Bool
  ) throws(StoreError) -> FleetVerdict {
    let order = FleetOrder(command, at: place.now)
    if let complaint = order.complaint { return .refused(complaint) }
    if isRemembered, order.isForgotten(at: place.now) { return .expired }
    let before = try place.registers(of: order.name)
    var ledger = FleetLedger(stamp: fleet.stamp, registers: before)
    let aspects = ledger.heard(order)
    fleet.stamp = ledger.stamp
    guard !aspects.isEmpty else { return .overtaken }
    let orCreate = order.makesBreaker && !order.isModeOver(at: place.now)
    let isMode = aspects == [.mode]
    let verdict: FleetVerdict?
    do throws(StoreError) {
      verdict = try step(order.name, orCreate: orCreate) { draft in
        draft.obey(order, with: &ledger, isRemembered: isRemembered)
      }
    } catch {
      guard error.kind == .tooManyBreakers else { throw error }
      // It is not noted, so that it applies if it is told again when there is room.
      return .refused(error.description)
    }
    if verdict == nil {
      let hasRoom = try before.isEmpty ? place.hasRoomForStrangers() : true
      guard hasRoom else {
        return .refused(
          "commands about too many breakers that this host does not have are remembered already")
      }
      // Nobody has to follow later what a breaker that is not here was told.
      ledger.note(true, aspects)
    }
    for (aspect, register) in ledger.registers where register != before[aspect] {
      try place.keep(register)
    }
    return verdict ?? (isMode && order.isModeOver(at: place.now) ? .expired : .noBreaker)
  }

  private mutating func step(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> FleetVerdict
  ) throws(StoreError) -> FleetVerdict? {
    var verdict: FleetVerdict?
    let events = try place.step(name, orCreate: orCreate) { verdict = body(&$0) }
    if let events, !events.isEmpty { changes.events.append((name, events)) }
    return verdict
  }
}

extension BreakerDraft {
  /// Does what a command of another host says.
  fileprivate mutating func obey(
    _ order: FleetOrder, with ledger: inout FleetLedger, isRemembered: Bool
  ) -> FleetVerdict {
    guard case .policy = order.action else {
      let policy = breaker.policy
      ledger.note(true, [.state, .mode])
      return apply { record, now in
        record.obeyed(
          order, isRemembered: isRemembered, at: now, policy: policy, jitter: Jitter.drawn())
      }
    }
    let hasChanged = agree { words, now in
      var done = ledger.lead(&words, because: order.reason ?? "set by an operator", at: now)
      for index in done.events.indices { done.events[index].origin = order.host }
      return done
    }
    if hasChanged { return .applied }
    return ledger.isWaiting(for: order)
      ? .refused("it does not fit the policy of this host") : .unneeded
  }
}
