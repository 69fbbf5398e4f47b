internal import SharedBreaker

/// One connection of a host to its fleet, from catching up until something fails.
///
/// It reads all that the server keeps first, so that it does not matter what the host has missed:
/// a restart, a failover, a lost server and a trimmed stream are all one case.
final class FleetSession {
  let context: RelayContext
  let claim: RelayClaim
  let server: FleetServer
  let stream: FleetStream
  let lineage: String

  /// What this host says about itself.
  let description: String
  var view: FleetView
  var clock: ServerClock
  var position: FleetPosition

  /// The breakers that the host has yet to say something new about.
  var undescribed: Set<String> = []
  private(set) var nextBeat = ContinuousClock.now
  private let beganAt = ContinuousClock.now

  /// The number that was due at the last beat, and had not been heard by then.
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
    let server = try Self.served { () throws(RedisError) in try FleetServer(context) }
    self.server = server
    stream = try Self.served { () throws(RedisError) in try FleetStream(context) }
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

  /// Runs a step on the server.
  static func served<Result>(
    _ body: () throws(RedisError) -> Result
  ) throws(RelayTrouble) -> Result {
    do { return try body() } catch { throw .redis(error) }
  }

  /// How long the session has lasted.
  var age: Duration { .now - beganAt }

  /// The server's time in milliseconds.
  var now: Int64 { clock.now() }
}

/// Showing that the host is alive.
extension FleetSession {
  /// How often to do so: in a large fleet less often, so that the server has no more to do.
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
      // What others have said meanwhile seemed to be earlier.
      throw .behind("commands that were overruled hold again")
    }
    try describe()
    scheduleBeat()
    context.onStep(.beaten)
  }

  /// Notes how many hosts the fleet has.
  ///
  /// A server that has just lost its data knows only those that have come back by now.
  private func noteHosts(_ count: Int) {
    let isEarly = age < .milliseconds(FleetServer.shortestSilence)
    view.hostsSeen = isEarly ? max(view.hostsSeen, count) : count
    let seen = view.hostsSeen
    context.course.change { $0.hostsSeen = seen }
  }

  /// Notices if messages do not arrive that the server has, and if all have arrived.
  ///
  /// The connection that waits for them may lead to another server than this one, or to none.
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

/// Telling.
extension FleetSession {
  /// How long to wait before telling what has changed on this host.
  ///
  /// In a large fleet an outage reaches all hosts at the same moment. If each waits for another time,
  /// most have heard of it from enough others before they would tell it themselves.
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
      let snapshot = try Self.stored { () throws(StoreError) in
        try context.store.snapshot(of: name)
      }
      guard let content = view.content(for: change, of: snapshot, named: name, at: now) else {
        continue
      }
      messages.append(
        FleetMessage(
          content, name: name, host: context.options.host, lineage: lineage,
          generation: view.generation(of: snapshot, named: name)))
    }
    guard !messages.isEmpty else { return }
    try Self.served { () throws(RedisError) in try server.tell(messages) }
    for message in messages { view.hasTold(message, at: now) }
    context.onStep(.toldEvidence)
  }

  /// Tells the commands that were given on this host; returns whether there may be more.
  ///
  /// It stops after many, so that the host hears others while somebody keeps giving commands.
  func tellPendingCommands() throws(RelayTrouble) -> Bool {
    for _ in 0..<10 {
      let pending = try Self.stored { () throws(StoreError) in try claim.pendingCommands() }
      guard !pending.isEmpty else { return false }
      context.manager.showLife()
      let commands = pending.map(\.command)
      let tellings = try Self.served { () throws(RedisError) in
        try server.tell(commands, lineage: lineage)
      }
      context.onStep(.told)
      for (command, telling) in zip(commands, tellings) { report(command, telling) }
      // What comes after a command that is ahead is further ahead.
      let done = pending[..<(tellings.firstIndex(of: .ahead) ?? pending.count)]
      if let last = done.last {
        try Self.stored { () throws(StoreError) in try claim.published(through: last.id) }
      }
      context.onStep(.forgotten)
      if done.count < pending.count { return false }
    }
    return true
  }

  /// Reports a command of this host that other hosts do not follow.
  private func report(_ command: FleetCommand, _ telling: FleetServer.Telling) {
    switch telling {
    case .told: break
    case .overtaken(let host):
      context.log.report(
        .overtaken,
        "the command to \(command.name) is not told: a later one of host \(host) holds")
    case .ahead:
      guard context.course.now.aheadOf != command.stamp else { return }
      context.course.change { $0.aheadOf = command.stamp }
      context.log.report(
        .problem,
        "commands wait: the one to \(command.name) seems to be from tomorrow or later: set the"
          + " clock of this host, or that of the server")
    }
  }

  /// Forgets commands that no host follows, so that they do not overrule those of tomorrow.
  ///
  /// Only if both the server's clock and this host's say so: either may be the wrong one.
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
      "forgot commands that were given while the clock of this host was far ahead: give them again"
        + " if they are still wanted")
    return true
  }

  /// Says what is new about the breakers of this host.
  private func describe() throws(RelayTrouble) {
    guard !undescribed.isEmpty else { return }
    let now = now
    var breakers: [String: FleetBreaker?] = [:]
    for name in undescribed {
      let snapshot = try Self.stored { () throws(StoreError) in
        try context.store.snapshot(of: name)
      }
      breakers[name] = .some(snapshot.flatMap { FleetBreaker($0, at: now) })
    }
    undescribed = []
    try Self.served { () throws(RedisError) in try server.describe(breakers) }
  }
}

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
