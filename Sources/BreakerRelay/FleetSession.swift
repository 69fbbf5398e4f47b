internal import SharedBreaker

/// One connection of a host to its fleet, from catching up until something fails.
///
/// It first reads everything that the server keeps, so it does not matter what the host has missed: a
/// restart, a failover, a lost server and a trimmed stream are all the same case.
final class FleetSession {
  let context: RelayContext
  let claim: RelayClaim
  let server: FleetServer
  let stream: FleetStream
  let lineage: String

  /// The description of this host on the server.
  let description: String
  var view: FleetView
  var clock: ServerClock
  var position: FleetPosition

  /// The breakers whose descriptions on the server are out of date.
  var undescribed: Set<String> = []
  private(set) var nextBeat = ContinuousClock.now
  private let beganAt = ContinuousClock.now

  /// The number of the latest message at the last beat, if it had not arrived by then.
  private var awaitedNumber: Int64?

  /// How often a host shows that it is alive, in milliseconds.
  private static let shortestInterval: Int64 = 1_000

  /// Connects and catches up.
  init(_ context: RelayContext, claim: RelayClaim, since: BreakerTimestamp) throws(RelayTrouble) {
    self.context = context
    self.claim = claim
    let host = context.options.host
    let lineage = try Self.stored { () throws(StoreError) in try context.store.lineage() }
    self.lineage = lineage
    description = HostText.text(lineage: lineage, run: context.run, since: since)
    view = FleetView(host: host)
    let server = try FleetServer(context)
    self.server = server
    stream = try FleetStream(context)
    let notes = context.course.now
    let beat = try server.beat(
      lineage: lineage, description: description, isKnown: notes.hasBeenSeen,
      silence: FleetServer.shortestSilence)
    context.course.change { $0.hasBeenSeen = true }
    clock = ServerClock(milliseconds: beat.now)
    view.hostsSeen = max(beat.hostsSeen, notes.hostsSeen)
    position = FleetPosition(epoch: beat.epoch, number: beat.number, entry: "0-0")
    context.onStep(.connected)
  }

  /// Runs a step on the store.
  static func stored<Result>(
    _ body: () throws(StoreError) -> Result
  ) throws(RelayTrouble) -> Result {
    do { return try body() } catch { throw .store(error) }
  }

  /// A breaker of this host; nil if there is none of that name.
  private func snapshot(of name: String) throws(RelayTrouble) -> BreakerSnapshot? {
    try Self.stored { () throws(StoreError) in try context.store.snapshot(of: name) }
  }

  /// How long the session has lasted.
  var age: Duration { .now - beganAt }

  /// The server's time in milliseconds.
  var now: Int64 { clock.now() }
}

/// Showing that the host is alive.
extension FleetSession {
  /// The time between beats, which grows with the fleet, so that the server's load does not.
  private var interval: Int64 { max(Self.shortestInterval, Int64(view.hostsSeen)) }

  /// Shows that the host is alive, and notices whether the server has lost its data.
  func beat() throws(RelayTrouble) {
    let lineage = try Self.stored { () throws(StoreError) in try context.store.lineage() }
    guard lineage == self.lineage else { throw .replaced(context.store.path) }
    let beat = try server.beat(
      lineage: lineage, description: description, isKnown: true,
      silence: max(FleetServer.shortestSilence, 3 * interval))
    clock = ServerClock(milliseconds: beat.now)
    noteHosts(beat.hostsSeen)
    view.forgetPast(at: beat.now)
    guard beat.epoch == position.epoch else { throw .behind("the server has lost its data") }
    try compare(with: beat.number)
    if try forgetImpossibleCommands() {
      // Commands of other hosts that came meanwhile seemed to be earlier.
      throw .behind("commands that were overruled hold again")
    }
    try describe()
    scheduleBeat()
    context.onStep(.beaten)
  }

  /// Notes how many hosts the fleet has.
  ///
  /// A server that has just lost its data knows only the hosts that have come back since.
  private func noteHosts(_ count: Int) {
    let isEarly = age < .milliseconds(FleetServer.shortestSilence)
    view.hostsSeen = isEarly ? max(view.hostsSeen, count) : count
    let seen = view.hostsSeen
    context.course.change { $0.hostsSeen = seen }
  }

  /// Checks that the messages that the server has do arrive, and notes if all have.
  ///
  /// The connection for messages may lead to a different server than this one, or to none.
  private func compare(with number: Int64) throws(RelayTrouble) {
    guard number >= position.number else {
      throw .behind("the server has gone back to message \(number)")
    }
    if let awaitedNumber, position.number < awaitedNumber {
      throw .behind("message \(awaitedNumber) has not arrived")
    }
    awaitedNumber = number > position.number ? number : nil
    if number == position.number { context.health.change { $0.lag = 0 } }
  }

  func scheduleBeat() { nextBeat = .now + .milliseconds(interval) }
}

/// Telling other hosts.
extension FleetSession {
  /// How long to wait before telling what has changed on this host.
  ///
  /// In a large fleet an outage reaches all hosts at the same moment. If each waits for a different
  /// time, most hear of it from enough others before they would tell it themselves.
  var hesitation: Duration {
    view.hostsSeen < 20 ? .zero : .microseconds(Int64.random(in: 0...Int64(view.hostsSeen) * 100))
  }

  /// Tells what has changed on this host.
  func tell(_ changes: [String: LocalChange?]) throws(RelayTrouble) {
    var messages: [FleetMessage] = []
    let now = now
    for (name, change) in changes {
      undescribed.insert(name)
      guard let change else { continue }
      let snapshot = try snapshot(of: name)
      guard let content = view.content(for: change, of: snapshot, named: name, at: now) else {
        continue
      }
      messages.append(
        FleetMessage(
          content, name: name, host: context.options.host, lineage: lineage,
          generation: view.generation(of: snapshot, named: name)))
    }
    guard !messages.isEmpty else { return }
    try server.tell(messages)
    for message in messages { view.hasTold(message, at: now) }
    context.onStep(.toldEvidence)
  }

  /// Tells the commands that were given on this host; returns whether there may be more.
  ///
  /// It stops after many, so that the host also hears others while more and more commands are given.
  func tellPendingCommands() throws(RelayTrouble) -> Bool {
    for _ in 0..<10 {
      let pending = try Self.stored { () throws(StoreError) in try claim.pendingCommands() }
      guard !pending.isEmpty else { return false }
      context.manager.showLife()
      let commands = pending.map(\.command)
      let tellings = try server.tell(commands, lineage: lineage)
      context.onStep(.told)
      for (command, telling) in zip(commands, tellings) { report(command, telling) }
      // Commands after one that is ahead are further ahead.
      let done = pending[..<(tellings.firstIndex(of: .ahead) ?? pending.count)]
      if let last = done.last {
        try Self.stored { () throws(StoreError) in try claim.published(through: last.id) }
      }
      context.onStep(.forgotten)
      if done.count < pending.count { return false }
    }
    return true
  }

  /// Reports a command of this host that other hosts do not carry out.
  private func report(_ command: FleetCommand, _ telling: FleetServer.Telling) {
    switch telling {
    case .told: break
    case .overtaken(let host):
      context.log.report(
        .overtaken,
        "the command to \(command.name) is not passed on: a later one from host \(host) applies")
    case .ahead:
      guard context.course.now.aheadOf != command.stamp else { return }
      context.course.change { $0.aheadOf = command.stamp }
      context.log.report(
        .problem,
        "commands wait: the one to \(command.name) seems to be from tomorrow or later: correct the"
          + " clock of this host or of the server")
    }
  }

  /// Forgets commands from the future, which no host carries out, so that later ones can apply.
  ///
  /// Both the server's clock and this host's have to agree, because either may be wrong.
  ///
  /// - Returns: Whether there were any.
  func forgetImpossibleCommands() throws(RelayTrouble) -> Bool {
    let latest = FleetMessage.latestBelievedStamp(at: now)
    let hasForgotten = try Self.stored { () throws(StoreError) in
      try claim.forgetCommands(stampedAbove: latest)
    }
    guard hasForgotten else { return false }
    context.log.report(
      .overtaken,
      "forgot commands that were given while the clock of this host was far ahead: repeat them if"
        + " they are still wanted")
    return true
  }

  /// Updates the descriptions of this host's breakers on the server.
  private func describe() throws(RelayTrouble) {
    guard !undescribed.isEmpty else { return }
    let now = now
    var breakers: [String: FleetBreaker?] = [:]
    for name in undescribed {
      let snapshot = try snapshot(of: name)
      breakers[name] = .some(snapshot.flatMap { FleetBreaker($0, at: now) })
    }
    undescribed = []
    try server.describe(breakers)
  }
}

/// Hearing other hosts.
extension FleetSession {
  /// Begins to wait for messages.
  func listen() throws(RelayTrouble) {
    try stream.ask(after: position.entry)
  }

  /// Reads the messages that have arrived, and does what follows from them.
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
    for entry in entries {
      guard try goOn(to: entry) else { continue }
      // A host that was suspended may not know how late it is.
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
    try server.tell(messages)
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

  /// How much news one transaction takes, because processes of the host wait for it.
  private static let newsAtOnce = 100

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
      useful.append(piece)
    }
    for name in names {
      if let hosts = try suspects(name) { useful.append(.suspicion(name: name, hosts: hosts)) }
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
    }
  }

  private func awaitsRecovery(_ name: String) throws(RelayTrouble) -> Bool {
    let snapshot = try snapshot(of: name)
    return snapshot.map { $0.state == .open && $0.policy.fleetSpread != nil } ?? false
  }

  /// How many other hosts have a breaker open that is closed here, if they are a quorum.
  private func suspects(_ name: String) throws(RelayTrouble) -> Int? {
    let snapshot = try snapshot(of: name)
    guard let snapshot, snapshot.state == .closed else { return nil }
    return view.quorum(for: name, policy: snapshot.policy, at: now)
  }
}
