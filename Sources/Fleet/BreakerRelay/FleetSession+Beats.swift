@_spi(Relay) internal import SharedBreaker

/// Showing that the host is alive.
extension FleetSession {
  /// Shows that the host is alive, and notices whether the server has lost its data.
  func beat() throws(RelayTrouble) {
    let lineage = try Self.stored { () throws(StoreError) in try context.store.lineage() }
    guard lineage == self.lineage else { throw .replaced(context.store.path) }
    guard try Self.stored({ () throws(StoreError) in try claim.withdrawals() }) == withdrawals
    else { throw .behind("commands of this host were withdrawn") }
    try noteRefusals()
    noteHeard()
    mark.sentAt = now
    let sent = FleetMessage.ownTime
    let beat = try server.beat(
      mark, since: context.began, silence: BeatPace.silence(ofFleet: view.hostsSeen))
    clock = ServerClock(milliseconds: beat.now)
    noteSkew((sent + FleetMessage.ownTime) / 2 - beat.now)
    noteHosts(beat.hostsSeen)
    view.forgetPast(at: beat.now)
    guard beat.epoch == position.epoch else { throw .behind("the server has lost its data") }
    try compare(with: beat.number)
    if try knowsImpossibleStamps() {
      // Their right stamps depend on the commands that the fleet knows. Commands of other hosts
      // that came meanwhile seemed to be earlier.
      throw .behind("this host has commands with stamps that no command can have")
    }
    try describe()
    if ContinuousClock.now >= nextLook { try look() }
    scheduleBeat()
    context.onStep(.beaten)
  }

  /// The difference between clocks from which on a host says so, in milliseconds.
  private static let largestSkew: Int64 = 60_000

  /// Notes by how much this host's clock is ahead of the server's.
  private func noteSkew(_ skew: Int64) {
    // The mark stays the same as long as only the time that a beat takes differs.
    if let known = mark.skew, (known - skew).magnitude < 1_000 { return }
    mark.skew = skew
    context.health.change { $0.skew = skew }
    let isSkewed = skew.magnitude >= Self.largestSkew
    guard context.course.now.isSkewed != isSkewed else { return }
    context.course.change { $0.isSkewed = isSkewed }
    guard isSkewed else {
      context.log.report(.connected, "the clock of this host agrees with the server's again")
      return
    }
    let time = DurationText.format(.seconds(Int64(skew.magnitude) / 1_000))
    context.log.report(
      .problem,
      "the clock of this host is \(time) \(skew > 0 ? "ahead of" : "behind") the server's: of two"
        + " commands to the fleet the wrong one may win: set it")
  }

  /// Notes which commands this host does not follow, if that has changed.
  private func noteRefusals() throws(RelayTrouble) {
    if mayFollowOthers {
      let commands = try Self.stored { () throws(StoreError) in try claim.unfollowedCommands() }
      let found = commands.map { RefusedCommand($0, "it does not fit the policy of this host") }
      if found != unfollowed {
        unfollowed = found
        heard = Self.heard(try known(), without: commands)
      }
      mayFollowOthers = false
    }
    let others = context.course.now.refused.values.filter { !heard.hasMark(of: $0) }
    mark.refused = Array(
      (unfollowed + others)
        .sorted { ($1.stamp, $1.name) < ($0.stamp, $0.name) }.prefix(HostMark.roomForRefused))
  }

  /// The commands that a host with some registers has dealt with.
  static func heard(_ known: [FleetCommand], without unfollowed: [FleetCommand]) -> HeardCommands {
    let left = Set(unfollowed.map { "\($0.name)\n\($0.stamp)\n\($0.host)" })
    return HeardCommands(known.filter { !left.contains("\($0.name)\n\($0.stamp)\n\($0.host)") })
  }

  /// Notes which commands this host has dealt with, for its mark and for clients that ask.
  func noteHeard() {
    mark.heard = heard.told()
    let heard = heard
    context.course.change { $0.heard = heard }
  }

  /// Says farewell to the fleet.
  func leave() throws(RelayTrouble) {
    mark.sentAt = now
    mark.hasLeft = true
    try server.leave(mark)
  }

  /// The latest commands that the store knows.
  func known() throws(RelayTrouble) -> [FleetCommand] {
    try Self.stored { () throws(StoreError) in try claim.commands() }
  }

  /// Notes how many hosts the fleet has.
  ///
  /// A server that has just lost its data knows only the hosts that have come back since.
  private func noteHosts(_ count: Int) {
    let isEarly = age < .milliseconds(BeatPace.shortestSilence)
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

  func scheduleBeat(after milliseconds: Int64? = nil) {
    let interval = milliseconds ?? BeatPace.interval(ofFleet: view.hostsSeen)
    nextBeat = .now + .milliseconds(interval)
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
