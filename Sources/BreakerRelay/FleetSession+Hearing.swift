internal import SharedBreaker

/// Hearing what other hosts tell.
extension FleetSession {
  /// Begins to wait for messages.
  func listen() throws(RelayTrouble) {
    try Self.served { () throws(RedisError) in try stream.ask(after: position.entry) }
  }

  /// Takes in the messages that have arrived, and carries out what follows from them.
  func hear() throws(RelayTrouble) {
    let arrived = try Self.served { () throws(RedisError) in try stream.arrived() }
    guard let arrived else {
      if ContinuousClock.now > stream.deadline { throw .redis(.late(RelayContext.patience)) }
      return
    }
    if !arrived.isEmpty {
      context.onStep(.received)
      try hear(arrived)
    }
    try listen()
  }

  private func hear(_ entries: [FleetStream.Entry]) throws(RelayTrouble) {
    var news: [FleetNews] = []
    var opened: Set<String> = []
    var own: [String: FleetMessage] = [:]
    for entry in entries {
      guard try goOn(to: entry) else { continue }
      // A host that has slept may not know how late it is.
      if entry.time < now + 86_400_000 { clock.hasReached(entry.time) }
      do throws(Refusal) {
        let message = try FleetMessage(entry.fields, receivedAt: entry.time, at: now)
        guard message.host != context.options.host else {
          own[message.name] = message
          continue
        }
        try view.take(message, at: now)
        switch message.content {
        case .command(let command): news.append(Self.news(of: command))
        case .recovered: news.append(.recovery(name: message.name, host: message.host))
        case .open: opened.insert(message.name)
        case .closed: break
        }
      } catch {
        context.refuse(error)
      }
    }
    try apply(news, suspecting: opened.sorted())
    try correct(own)
    if let last = entries.last {
      let lag = max(0, now - last.time)
      context.health.change { $0.lag = lag }
    }
  }

  /// Tells again how breakers of this host stand whose latest words came late.
  private func correct(_ own: [String: FleetMessage]) throws(RelayTrouble) {
    let now = now
    var messages: [FleetMessage] = []
    for (name, message) in own {
      guard let content = view.correction(of: message, at: now) else { continue }
      let snapshot = try Self.stored { () throws(StoreError) in
        try context.store.snapshot(of: name)
      }
      messages.append(
        FleetMessage(
          content, name: name, host: context.options.host, lineage: lineage,
          generation: max(message.generation, view.generation(of: snapshot, named: name))))
    }
    guard !messages.isEmpty else { return }
    try Self.served { () throws(RedisError) in try server.tell(messages) }
    for message in messages { view.hasTold(message, at: now) }
  }

  /// Commands that are older than this come from a host that could not tell them earlier.
  private static let longestWay = Duration.seconds(15)

  /// A command as news: one that comes late must not undo what has happened since it was given.
  static func news(of command: FleetCommand) -> FleetNews {
    command.age > longestWay ? .remembered(command) : .command(command)
  }

  /// Notes an entry as read; returns whether it is a message.
  private func goOn(to entry: FleetStream.Entry) throws(RelayTrouble) -> Bool {
    guard let number = entry.number, number > 0 else {
      // Nobody that speaks the protocol has written it, so it has no place in the count.
      position.entry = entry.name
      context.refuse(Refusal(.unreadable, "it has no number"))
      return false
    }
    guard number == position.number + 1 else {
      throw .behind("the message after \(position.number) is \(number)")
    }
    position.number = number
    position.entry = entry.name
    return true
  }

  /// How much news a transaction takes; processes of the host wait for as long as it takes.
  private static let newsAtOnce = 100

  /// Carries out what was learned, as far as it may change anything.
  ///
  /// Whatever changes nothing must not write: every write makes all processes of the host look at
  /// the store again.
  func apply(
    _ news: [FleetNews], suspecting names: [String]
  ) throws(RelayTrouble) {
    var useful: [FleetNews] = []
    for piece in news {
      if case .recovery(let name, _) = piece, try !awaitsRecovery(name) { continue }
      useful.append(piece)
    }
    for name in names {
      if let hosts = try suspects(name) { useful.append(.suspicion(name: name, hosts: hosts)) }
    }
    for start in stride(from: 0, to: useful.count, by: Self.newsAtOnce) {
      let end = min(start + Self.newsAtOnce, useful.count)
      let piece = Array(useful[start..<end])
      // The host has read so far only when all of it is done.
      let place = end == useful.count ? position : nil
      let verdicts = try Self.stored { () throws(StoreError) in
        try claim.apply(piece, position: place)
      }
      context.manager.showLife()
      context.onStep(.applied)
      context.count(verdicts, on: piece)
    }
  }

  private func awaitsRecovery(_ name: String) throws(RelayTrouble) -> Bool {
    let snapshot = try Self.stored { () throws(StoreError) in
      try context.store.snapshot(of: name)
    }
    return snapshot.map { $0.state == .open && $0.policy.fleetSpread != nil } ?? false
  }

  /// How many other hosts have a breaker open that is closed here, if they are a quorum.
  private func suspects(_ name: String) throws(RelayTrouble) -> Int? {
    let snapshot = try Self.stored { () throws(StoreError) in
      try context.store.snapshot(of: name)
    }
    guard let snapshot, snapshot.state == .closed else { return nil }
    return view.quorum(for: name, policy: snapshot.policy, at: now)
  }
}
