@_spi(Relay) internal import BreakerCore

/// The commands of a fleet.
extension WriteTransaction {
  /// Carries out the request of a relay, as far as its time allows; if nothing changes, nothing is
  /// written.
  ///
  /// - Returns: The changes, with the rest of the request if time was up.
  func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    // Counting the commands that wait would take longer the more there are.
    let before = try fleet(counting: false)
    var hearing = try FleetHearing(request, of: before, in: self)
    try hearing.run()
    if hearing.fleet != before { try save(hearing.fleet) }
    let hasChanged = hearing.hasChanged || hearing.fleet != before
    if hasChanged, !hearing.hasRaisedRevision { try raiseRevision(of: nil) }
    return hearing.changes
  }

  /// Notes a command that is given on this host, and keeps it for the relay.
  ///
  /// - Returns: False if the store belongs to no fleet, or if there is no higher stamp. Nothing is
  ///   written then.
  func give(_ command: GivenCommand, to name: String) throws(StoreError) -> Bool {
    guard var fleet = try fleet(counting: false) else { return false }
    let before = FleetLedger(stamp: fleet.stamp, registers: try registers(of: name))
    var ledger = before
    guard let order = command.order(to: name, of: fleet, in: ledger, at: now) else { return false }
    ledger.gave(order)
    for (aspect, register) in ledger.registers where register != before.registers[aspect] {
      try keep(register)
    }
    fleet.stamp = ledger.stamp
    try save(fleet)
    // Otherwise they would pile up while the host cannot reach the others.
    for earlier in try pendingOrders(of: name, limit: .max)
    where earlier.order.isOvertaken(by: order) {
      try deletePending(earlier.id...earlier.id)
    }
    try append(order)
    return true
  }

  /// Takes back the commands to a breaker that the relay has yet to publish.
  ///
  /// Their changes on this host stay until another command replaces them. Their registers go too,
  /// or the relay would tell them at its next connect.
  ///
  /// - Returns: The commands.
  func withdraw(from name: String) throws(StoreError) -> [FleetOrder] {
    guard var fleet = try fleet(counting: false) else { return [] }
    let pending = try pendingOrders(of: name, limit: .max)
    guard !pending.isEmpty else { return [] }
    for register in try registers(of: name)
    where pending.contains(where: { register.order.isPart(of: $0.order) }) {
      try forget(register)
    }
    for order in pending { try deletePending(order.id...order.id) }
    // The relay reads what the fleet says about these breakers again.
    fleet.withdrawals += 1
    try save(fleet)
    try raiseRevision(of: nil)
    return pending.map(\.order)
  }

  /// Forgets or corrects every command with a higher stamp than this.
  ///
  /// - Returns: The highest stamp that a command has then; 0 if there is none.
  fileprivate func correct(
    stampsAbove latest: Int64, of host: String, knowing remembered: [FleetCommand]
  ) throws(StoreError) -> Int64 {
    let now = now
    let registers = try registers(of: nil)
    let pending = try pendingOrders(of: nil, limit: .max).map(\.order)
    let correction = FleetCorrection(
      registers.map(\.order) + pending, knowing: remembered.map { FleetOrder($0, at: now) },
      above: latest, of: host, at: now)
    try forgetOrders(stampedAbove: latest)
    for register in registers {
      guard let order = correction.corrected(register.order) else { continue }
      try keep(FleetRegister(order, isInForce: register.isInForce))
    }
    for order in pending {
      guard let order = correction.corrected(order) else { continue }
      try append(order)
    }
    return correction.highest
  }

  /// Leaves the fleet; false if the store belongs to none.
  func leaveFleet() throws(StoreError) -> Bool {
    guard try fleet(counting: false) != nil else { return false }
    try forgetFleet()
    try raiseRevision(of: nil)
    return true
  }
}

extension FleetLedger {
  fileprivate init(stamp: Int64, registers: [FleetRegister]) {
    let byAspect = registers.compactMap { register in register.aspect.map { ($0, register) } }
    self.init(stamp: stamp, registers: Dictionary(byAspect) { $1 })
  }
}

/// The request of a relay while it is being carried out, in one transaction.
private struct FleetHearing {
  private let place: WriteTransaction
  private(set) var changes = FleetChanges()

  /// Whether anything has changed besides `fleet`.
  private(set) var hasChanged = false

  /// Whether a breaker has been written, with the revision of the transaction.
  private(set) var hasRaisedRevision = false

  /// The store's knowledge of its fleet after the transaction.
  private(set) var fleet: StoredFleet

  /// The part of the request that is left.
  private var rest: FleetRequest

  /// When the transaction has to end, on the monotonic clock.
  private let end: Int64

  /// Whether the transaction has done any of it.
  private var hasWorked = false

  /// - Throws: If the store belongs to another fleet.
  init(
    _ request: FleetRequest, of fleet: StoredFleet?, in place: WriteTransaction
  ) throws(StoreError) {
    rest = request
    end = Patience.deadline(after: request.turn)
    self.place = place
    changes.commandCount = request.commandCount
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
    if let latest = rest.latestStamp, fleet.stamp > latest {
      fleet.stamp = try place.correct(
        stampsAbove: latest, of: fleet.host, knowing: rest.remembered)
      hasChanged = true
      changes.hasCorrected = true
    }
    rest.latestStamp = nil
    rest.remembered = []
    if let note = rest.note, note != fleet.note {
      fleet.isConnected = note.isConnected
      fleet.problem = note.problem
      fleet.changedAtMilliseconds = place.now.wallMilliseconds
    }
    rest.note = nil
    let hasNews = !rest.news.isEmpty
    guard try hearNews(), try settlePending() else {
      rest.hasChanged = rest.hasChanged || hasChanged
      rest.commandCount = changes.commandCount
      changes.rest = rest
      return
    }
    // A position alone is not written, because every process would have to look again. A relay that
    // starts from the earlier position only reads news again that change nothing.
    let isWorthIt =
      !hasNews || hasChanged || rest.hasChanged
      || rest.position?.epoch != fleet.position?.epoch
    if let position = rest.position, isWorthIt { fleet.position = position }
  }

  /// Whether time is left; until something has been done, there is.
  private var hasTime: Bool { !hasWorked || Patience.monotonicNanoseconds() < end }

  /// Hears the news in order until time is up; returns whether all of it was heard.
  private mutating func hearNews() throws(StoreError) -> Bool {
    var heard = 0
    for news in rest.news {
      guard hasTime else { break }
      try hear(news)
      hasWorked = true
      heard += 1
    }
    rest.news.removeFirst(heard)
    return rest.news.isEmpty
  }

  /// Notes what has gone out, and what cannot, until time is up; returns whether all was noted.
  private mutating func settlePending() throws(StoreError) -> Bool {
    guard !(rest.published.isEmpty && rest.refusals.isEmpty) else { return true }
    guard try place.hasPendingOrders() else { return true }
    while hasTime, let id = rest.published.popLast() {
      try place.deletePending(id...id)
      hasWorked = true
      hasChanged = true
    }
    while hasTime, let (id, why) = rest.refusals.popFirst() {
      try place.refuse(id, because: why)
      hasWorked = true
      hasChanged = true
    }
    return rest.published.isEmpty && rest.refusals.isEmpty
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
      case .hold(let name, let host, let hold): try hear(hold, of: name, on: host)
      }
    changes.verdicts.append(verdict)
  }

  private mutating func hear(
    _ hold: FleetHold, of name: String, on host: String
  ) throws(StoreError) -> FleetVerdict {
    let orders = try place.registers(of: name).map(\.order).filter(\.action.endsHolds)
    let end = orders.map(\.stamp).max() ?? 0
    return try step(name, orCreate: false) { draft in
      let policy = draft.breaker.policy
      return draft.apply { $0.heard(hold, on: host, after: end, at: $1, policy: policy) }
    } ?? .noBreaker
  }

  private mutating func obey(
    _ command: FleetCommand, isRemembered: Bool
  ) throws(StoreError) -> FleetVerdict {
    let order = FleetOrder(command, at: place.now)
    if let complaint = order.complaint { return .refused(complaint) }
    if isRemembered, order.isForgotten(at: place.now) { return .expired }
    let before = FleetLedger(
      stamp: fleet.stamp, registers: try place.registers(of: order.name))
    var ledger = before
    let aspects = ledger.heard(order)
    fleet.stamp = ledger.stamp
    guard !aspects.isEmpty else {
      // A known command may have come with another seal, which changes nothing for the host.
      for (aspect, register) in ledger.registers where register != before.registers[aspect] {
        try place.keep(register)
      }
      return .overtaken
    }
    let orCreate = order.makesBreaker && !order.isModeOver(at: place.now)
    let isMode = aspects == [.mode]
    let verdict: FleetVerdict?
    do throws(StoreError) {
      verdict = try step(order.name, orCreate: orCreate) { draft in
        draft.obey(order, with: &ledger, isRemembered: isRemembered)
      }
    } catch {
      guard error.kind == .tooManyBreakers else { throw error }
      // It is not noted, so that it applies if it comes again when there is room.
      return .refused(error.description)
    }
    if verdict == nil {
      if before.registers.isEmpty {
        var known = changes.commandCount
        if known == nil { known = try place.commandCount() }
        let count = known ?? 0
        guard count < place.room else {
          return .refused(
            "commands about too many breakers that this host does not have are remembered already")
        }
        changes.commandCount = count
      }
      // A breaker that is created later need not follow earlier commands.
      ledger.note(true, aspects)
    }
    for (aspect, register) in ledger.registers where register != before.registers[aspect] {
      try place.keep(register)
      hasChanged = true
    }
    if let count = changes.commandCount {
      changes.commandCount = count + ledger.registers.count - before.registers.count
    }
    return verdict ?? (isMode && order.isModeOver(at: place.now) ? .expired : .noBreaker)
  }

  private mutating func step(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> FleetVerdict
  ) throws(StoreError) -> FleetVerdict? {
    var verdict: FleetVerdict?
    // Not in one group, because several news may be about one breaker, each with events of its own.
    guard let taken = try place.take(name, orCreate: orCreate, { verdict = body(&$0) }) else {
      return nil
    }
    if taken.hasWritten {
      hasChanged = true
      hasRaisedRevision = true
      changes.breakers.append(taken.breaker)
    }
    if !taken.events.isEmpty { changes.events.append((name, taken.events)) }
    return verdict
  }
}

extension BreakerDraft {
  /// Carries out a command of another host.
  fileprivate mutating func obey(
    _ order: FleetOrder, with ledger: inout FleetLedger, isRemembered: Bool
  ) -> FleetVerdict {
    guard case .policy = order.action else {
      let policy = breaker.policy
      ledger.note(true, [.state, .hold, .mode])
      return apply { record, now in
        record.obeyed(
          order, isRemembered: isRemembered, at: now, policy: policy, jitter: Jitter.drawn())
      }
    }
    let hasChanged = agree { words, now in
      var done = ledger.lead(&words, because: order.reason ?? "set by an operator", at: now)
      done.events = done.events.map { $0.given(by: order.giver) }
      return done
    }
    if hasChanged { return .applied }
    return ledger.isWaiting(for: order)
      ? .refused("it does not fit the policy of this host") : .unneeded
  }
}
