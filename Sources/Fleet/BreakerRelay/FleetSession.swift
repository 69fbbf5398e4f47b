@_spi(Relay) internal import SharedBreaker

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

  /// All that this host says of itself on the server.
  var mark: HostMark
  var view: FleetView
  var clock: ServerClock
  var position: FleetPosition

  /// The breakers whose descriptions on the server are out of date.
  var undescribed: Set<String> = []

  /// Whether breakers of this host may have begun or ceased to follow commands.
  var mayFollowOthers = true

  /// The commands that breakers of this host do not follow, because they do not fit.
  var unfollowed: [RefusedCommand] = []

  /// The breakers that this host is going to suspect, and when.
  var suspicions: [String: ContinuousClock.Instant] = [:]

  /// The breakers that may be held here, and when to look at them again.
  var held: Set<String> = []
  var nextHoldLook: ContinuousClock.Instant?

  /// How often operators had withdrawn commands when the session began.
  var withdrawals: Int64 = 0
  var nextBeat = ContinuousClock.now

  /// When to look again at what the server has.
  var nextLook = ContinuousClock.now

  /// The commands that this host has dealt with.
  var heard = HeardCommands()
  private let beganAt = ContinuousClock.now

  /// The number of the latest message at the last beat, if it had not arrived by then.
  var awaitedNumber: Int64?

  /// Connects and catches up.
  init(_ context: RelayContext, claim: RelayClaim, since: BreakerTimestamp) throws(RelayTrouble) {
    self.context = context
    self.claim = claim
    let host = context.options.host
    let lineage = try Self.stored { () throws(StoreError) in try context.store.lineage() }
    self.lineage = lineage
    view = FleetView(host: host)
    let server = try FleetServer(context)
    self.server = server
    mark = HostMark(lineage: lineage, run: context.run, sentAt: server.clock.now())
    mark.keys = context.authority.keyNames
    stream = try FleetStream(context, at: server.address)
    let beat = try server.beat(mark, since: context.began, silence: BeatPace.shortestSilence)
    clock = ServerClock(milliseconds: beat.now)
    view.hostsSeen = max(beat.hostsSeen, context.course.now.hostsSeen)
    position = FleetPosition(epoch: beat.epoch, number: beat.number, entry: "0-0")
    scheduleLook()
    context.onStep(.connected)
  }

  /// Runs a step on the store.
  static func stored<Result>(
    _ body: () throws(StoreError) -> Result
  ) throws(RelayTrouble) -> Result {
    do { return try body() } catch { throw .store(error) }
  }

  /// A breaker of this host; nil if there is none of that name.
  func snapshot(of name: String) throws(RelayTrouble) -> BreakerSnapshot? {
    try Self.stored { () throws(StoreError) in try context.store.snapshot(of: name) }
  }

  /// How long the session has lasted.
  var age: Duration { .now - beganAt }

  /// The server's time in milliseconds.
  var now: Int64 { clock.now() }
}

/// Telling other hosts.
extension FleetSession {
  /// How long to wait before telling changes on this host.
  ///
  /// In a large fleet an outage reaches all hosts at the same moment. If each waits for a different
  /// time, most hear of it from enough others before they would tell it themselves.
  var hesitation: Duration {
    let hosts = Int64(min(view.hostsSeen, 10_000))
    return hosts < 20 ? .zero : .microseconds(Int64.random(in: 0...hosts * 100))
  }

  /// Tells changes on this host.
  func tell(_ changes: [String: LocalChange?]) throws(RelayTrouble) {
    var messages: [FleetMessage] = []
    let now = now
    // A change of a policy may let a value of the fleet fit.
    if !unfollowed.isEmpty { mayFollowOthers = true }
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
    try server.tell(messages, at: now)
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
      let tellings = try server.tell(commands, lineage: lineage, at: now)
      context.onStep(.told)
      var done: [Int64] = []
      var refusals: [Int64: String?] = [:]
      for (command, telling) in zip(pending, tellings) {
        switch telling {
        case .told: done.append(command.id)
        case .refused(let why):
          if command.refusal != why { refusals[command.id] = why }
        case .overtaken(let host):
          // It waits until this host has heard the later one, which takes it away.
          if try hasLost(command.command) {
            done.append(command.id)
          } else {
            let why = "a later one from host \(host) applies"
            if command.refusal != why { refusals[command.id] = why }
          }
          guard command.refusal == nil else { break }
          context.log.report(
            .overtaken,
            "the command to \(command.command.name) is not passed on: a later one from host"
              + " \(host) applies")
        }
      }
      reportRefusals(refusals, of: pending)
      if !done.isEmpty || !refusals.isEmpty {
        try Self.stored { () throws(StoreError) in try claim.published(done, refusing: refusals) }
        let told = Set(done)
        for command in pending where told.contains(command.id) {
          context.givers.told(command.command)
          heard.take(command.command)
        }
        noteHeard()
      }
      context.onStep(.forgotten)
      if done.count < pending.count { return false }
    }
    return true
  }

  /// Whether this host knows later commands about everything that one of its own is about.
  private func hasLost(_ command: FleetCommand) throws(RelayTrouble) -> Bool {
    let known = try Self.stored { () throws(StoreError) in
      try context.store.fleetCommands(to: command.name)
    }
    return command.byAspect.allSatisfy { aspect, part in
      known.contains { $0.aspect == aspect && $0.command.isLater(than: part) }
    }
  }

  /// Reports the first of some commands that cannot go out, if there were none before.
  private func reportRefusals(_ refusals: [Int64: String?], of pending: [RelayClaim.Pending]) {
    guard pending.allSatisfy({ $0.refusal == nil }),
      let first = pending.first(where: { refusals[$0.id] != nil }),
      case let why?? = refusals[first.id]
    else { return }
    context.log.report(
      .problem, "commands wait: the one to \(first.command.name) cannot go out: \(why)")
  }

  /// The highest stamp that a command can have.
  ///
  /// Both the server's clock and this host's have to agree, because either may be wrong.
  private var latestStamp: Int64 { FleetMessage.latestBelievedStamp(at: now) }

  /// Whether this host knows stamps of commands from the future, which no host carries out.
  func knowsImpossibleStamps() throws(RelayTrouble) -> Bool {
    let latest = latestStamp
    return try Self.stored { () throws(StoreError) in try claim.hasStamps(above: latest) }
  }

  /// Corrects the stamps of commands from the future.
  ///
  /// A command of this host stays later than those that the fleet had when it was given.
  func correctImpossibleStamps(knowing state: FleetState) throws(RelayTrouble) {
    let latest = latestStamp
    let hasCorrected = try Self.stored { () throws(StoreError) in
      try claim.correctStamps(above: latest, knowing: Array(state.commands.values))
    }
    guard hasCorrected else { return }
    context.log.report(
      .overtaken,
      "commands that were given while the clock of this host was far ahead have got the stamps that"
        + " they should have had: they go out now")
  }
}
