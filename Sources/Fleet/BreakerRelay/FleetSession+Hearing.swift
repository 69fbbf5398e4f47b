@_spi(Relay) internal import SharedBreaker

/// Hearing other hosts.
extension FleetSession {
  /// Begins to wait for messages.
  func listen() throws(RelayTrouble) {
    try stream.ask(after: position.entry)
  }

  /// Reads the messages that have arrived, and acts on them.
  func hear() throws(RelayTrouble) {
    let arrived = try stream.arrived()
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
    var latest: Int64?
    for entry in entries {
      guard try goOn(to: entry) else { continue }
      if !context.authority.isOn { note(entry.time) }
      guard let message = message(in: entry) else { continue }
      // Any writer to the server can give an entry a wrong time.
      if let sent = message.sentAt { note(sent) }
      latest = message.sentAt ?? entry.time
      let isOwn = message.host == context.options.host
      switch message.content {
      case .command(let command):
        // Nothing that comes in the name of this host is news, unless an operator may have
        // withdrawn it, or it names its giver, whom the store does not know yet.
        var isKnown = isOwn
        if isOwn, withdrawals > 0 || command.verifiedUser != nil { isKnown = try knows(command) }
        if !isKnown { news.append(Self.news(of: command)) }
      case .open, .recovered, .closed:
        if isOwn { own[message.name] = message }
      case .hold: break
      }
      guard !isOwn else { continue }
      switch message.content {
      case .recovered: news.append(.recovery(name: message.name, host: message.host))
      case .open: opened.insert(message.name)
      case .hold(let hold):
        news.append(.hold(name: message.name, host: message.host, hold))
      case .closed, .command: break
      }
    }
    try apply(news, suspecting: try plan(opened.sorted()))
    try correct(own)
    if let latest {
      let lag = max(0, now - latest)
      context.health.change { $0.lag = lag }
    }
  }

  /// Notes that the server's clock has reached a time.
  ///
  /// A host that was suspended may not know how late it is.
  private func note(_ time: Int64) {
    if time < now + 86_400_000 { clock.hasReached(time) }
  }

  /// Reads an entry; nil if this host cannot use it.
  private func message(in entry: FleetStream.Entry) -> FleetMessage? {
    do throws(Refusal) {
      let message = try FleetMessage(
        entry.fields, receivedAt: entry.time, at: now, believing: context.authority)
      return try view.take(message, at: now) ? message : nil
    } catch {
      context.refuse(error)
      return nil
    }
  }

  /// Whether this host knows a command that it has told itself, with its giver.
  ///
  /// It does not if an operator has withdrawn the command while the server had it already. All hosts
  /// follow it then, so this one does too.
  private func knows(_ command: FleetCommand) throws(RelayTrouble) -> Bool {
    let known = try Self.stored { () throws(StoreError) in
      try context.store.fleetCommands(to: command.name)
    }
    return command.byAspect.allSatisfy { aspect, part in
      known.contains { known in
        known.aspect == aspect && !part.isLater(than: known.command)
          && (known.command.isLater(than: part) || known.command.giver == part.giver)
      }
    }
  }

  /// Repeats the state of breakers of this host about which an outdated message has arrived.
  private func correct(_ own: [String: FleetMessage]) throws(RelayTrouble) {
    let now = now
    var messages: [FleetMessage] = []
    for (name, message) in own {
      guard let content = view.correction(of: message, at: now) else { continue }
      let snapshot = try snapshot(of: name)
      messages.append(
        FleetMessage(
          content, name: name, host: context.options.host, lineage: lineage,
          generation: max(message.generation, view.generation(of: snapshot, named: name))))
    }
    guard !messages.isEmpty else { return }
    try server.tell(messages, at: now)
    for message in messages { view.hasTold(message, at: now) }
  }

  /// Commands that are older come from a host that could not pass them on earlier.
  private static let longestWay = Duration.seconds(15)

  /// Returns a command as news; one that comes late must not undo what has happened meanwhile.
  static func news(of command: FleetCommand) -> FleetNews {
    command.age > longestWay ? .remembered(command) : .command(command)
  }

  /// Notes an entry as read; returns whether it is a message.
  private func goOn(to entry: FleetStream.Entry) throws(RelayTrouble) -> Bool {
    guard let number = entry.number, number > 0 else {
      // No program that follows the protocol has written it, so it has no number.
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

  /// How much news is applied before the relay shows that it is alive.
  private static let newsAtOnce = 1_000

  /// Applies news that may change something.
  ///
  /// Other news must not be written, because every write makes all processes of the host look at the
  /// store again.
  func apply(
    _ news: [FleetNews], suspecting names: [String]
  ) throws(RelayTrouble) {
    var useful: [FleetNews] = []
    for piece in news {
      if case .recovery(let name, _) = piece, try !awaitsRecovery(name) { continue }
      if case .hold(let name, let host, let hold) = piece,
        try !awaits(hold, of: name, on: host)
      {
        continue
      }
      useful.append(piece)
    }
    for name in names {
      if let hosts = try suspicion(of: name)?.hosts {
        useful.append(.suspicion(name: name, hosts: hosts))
      }
    }
    for start in stride(from: 0, to: useful.count, by: Self.newsAtOnce) {
      let end = min(start + Self.newsAtOnce, useful.count)
      let piece = Array(useful[start..<end])
      // The position moves only when all the news before it has been applied.
      let place = end == useful.count ? position : nil
      let verdicts = try Self.stored { () throws(StoreError) in
        try claim.apply(piece, position: place)
      }
      context.manager.showLife()
      context.onStep(.applied)
      context.count(verdicts, on: piece)
      heard.take(piece, verdicts)
      mayFollowOthers = mayFollowOthers || piece.contains(where: \.setsPolicy)
    }
  }

  private func awaitsRecovery(_ name: String) throws(RelayTrouble) -> Bool {
    let snapshot = try snapshot(of: name)
    return snapshot.map { $0.state == .open && $0.policy.fleetSpread != nil } ?? false
  }
}

/// Suspecting breakers that are open elsewhere.
extension FleetSession {
  /// Decides when to suspect breakers of which other hosts have told something.
  ///
  /// - Returns: The breakers to suspect at once.
  func plan(_ names: [String]) throws(RelayTrouble) -> [String] {
    var due: [String] = []
    for name in names where suspicions[name] == nil {
      guard let policy = try suspicion(of: name)?.policy else { continue }
      let spread = policy.suspicionSpread(ofFleet: view.hostsSeen)
      if spread == .zero {
        due.append(name)
      } else {
        suspicions[name] = .now + spread * Double.random(in: 0..<1)
      }
    }
    return due
  }

  /// When the next suspicion is due; nil if there is none.
  var nextSuspicion: ContinuousClock.Instant? { suspicions.values.min() }

  /// Suspects the breakers whose time has come, if they are still open on enough other hosts.
  func suspectThoseDue() throws(RelayTrouble) {
    let moment = ContinuousClock.now
    let due = suspicions.filter { $0.value <= moment }.keys.sorted()
    guard !due.isEmpty else { return }
    for name in due { suspicions[name] = nil }
    try apply([], suspecting: due)
  }

  /// How many other hosts have a breaker open that is closed here, if they are a quorum.
  private func suspicion(
    of name: String
  ) throws(RelayTrouble) -> (hosts: Int, policy: BreakerPolicy)? {
    let snapshot = try snapshot(of: name)
    guard let snapshot, snapshot.state == .closed else { return nil }
    return view.quorum(for: name, policy: snapshot.policy, at: now).map { ($0, snapshot.policy) }
  }
}

extension FleetNews {
  /// Whether it is a command to a policy, some of which may fit only together.
  fileprivate var setsPolicy: Bool {
    if case .policy? = command?.action { return true }
    return false
  }
}
