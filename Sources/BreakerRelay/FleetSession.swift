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
