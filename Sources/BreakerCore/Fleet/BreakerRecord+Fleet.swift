/// What other hosts of a fleet bring about.
///
/// Each of these requires a record that has been settled at `now`.
extension BreakerRecord {
  /// Other hosts have the breaker open: the next call becomes a probe, whose outcome decides.
  ///
  /// Between two suspicions the breaker is closed for at least `open-for`, so that a fleet that is
  /// wrong about this host costs it one call now and then.
  ///
  /// - Returns: Whether the breaker is half-open because of it.
  package mutating func suspected(
    by hosts: Int, at now: Moment, policy: BreakerPolicy
  ) -> Step<Bool> {
    guard state == .closed, isJudging(at: now.boot), let quorum = policy.fleetQuorum,
      hosts >= quorum.least,
      !wasJustSuspected(at: now.boot, policy: policy)
    else { return Step(answer: false, events: []) }
    enter(.halfOpen, at: now)
    generation += 1
    probeSuccesses = 0
    probeFailures = 0
    suspectedAt = now.boot
    let event = BreakerEvent(
      .suspicion(from: .closed, to: state),
      reason: "suspected by \(CountedNoun.text(Int64(hosts), "host"))",
      atMilliseconds: now.wallMilliseconds)
    return Step(answer: true, events: [event])
  }

  private func wasJustSuspected(at now: Instant, policy: BreakerPolicy) -> Bool {
    guard suspectedAt != nil, let closedSince = tally.since else { return false }
    return now.since(closedSince) < policy.openFor.inNanoseconds
  }

  /// Whether the breaker is half-open because other hosts have it open.
  var isSuspected: Bool {
    state == .halfOpen && suspectedAt.map { $0 == tally.since } ?? false
  }

  /// Closes a breaker whose suspicion was wrong, and keeps what it had counted before.
  mutating func acquit(at now: Moment, because reason: String) -> BreakerEvent {
    let from = state
    enter(.closed, at: now)
    generation += 1
    consecutiveFailures = 0
    streakStartedAt = nil
    probeSuccesses = 0
    probeFailures = 0
    return BreakerEvent(
      .suspicion(from: from, to: state), reason: reason, atMilliseconds: now.wallMilliseconds)
  }

  /// A probe has succeeded on another host: the open time ends within `fleet-spread`.
  ///
  /// An open time that an operator set, or a failure that named it, stays as it is. So does one that
  /// ends within `fleet-spread` anyway: if each of several recoveries could shorten it, the hosts of
  /// a fleet would come back much closer together.
  ///
  /// - Parameters:
  ///   - host: The other host.
  ///   - now: The time.
  ///   - policy: The policy in force.
  ///   - part: The part of `fleet-spread` to wait, from 0 up to 1, so that the hosts of a fleet do
  ///     not probe all at once.
  /// - Returns: Whether the open time has become shorter.
  package mutating func recovered(
    on host: String, at now: Moment, policy: BreakerPolicy, part: Double
  ) -> Step<Bool> {
    guard state == .open, isJudging(at: now.boot), !isOpenTimeNamed, let openUntil,
      let spread = policy.fleetSpread?.inNanoseconds, spread > 0
    else { return Step(answer: false, events: []) }
    let left = openUntil.since(now.boot)
    guard left > spread else { return Step(answer: false, events: []) }
    shortenOpenTime(by: left - Int64(Double(spread) * part))
    let event = BreakerEvent(
      .recovery, reason: "\(host) recovered", atMilliseconds: now.wallMilliseconds, origin: host)
    return Step(answer: true, events: [event])
  }

  /// Ends the open time earlier; it began when it began.
  private mutating func shortenOpenTime(by nanoseconds: Int64) {
    openUntil = openUntil?.advanced(by: -nanoseconds)
    openNanoseconds = openNanoseconds.subtractingSaturating(nanoseconds)
  }
}

/// Commands that were given on another host.
extension BreakerRecord {
  /// Does what a command to the state or to the mode says, as if it had arrived at once.
  ///
  /// What is left of a time is counted from when the command was given.
  ///
  /// - Parameters:
  ///   - order: The command; one to the policy changes nothing here.
  ///   - isRemembered: Whether the command was given while this host did not listen. Then a reset
  ///     applies only if the state has not changed since.
  ///   - now: The time.
  ///   - policy: The policy in force.
  ///   - jitter: A number from 0 up to 1, in case the command opens the breaker.
  /// - Returns: What came of it.
  package mutating func obeyed(
    _ order: FleetOrder, isRemembered: Bool, at now: Moment, policy: BreakerPolicy, jitter: Double
  ) -> Step<FleetVerdict> {
    let age = order.age(at: now)
    let isLate = isRemembered && tally.since.map { $0 >= order.givenAt.boot } ?? false
    var done: Step<Void>
    switch order.action {
    case .reset where isLate:
      return Step(answer: .unneeded, events: [])
    case .trip(let time):
      var record = self
      done = record.tripped(
        for: time, reason: order.reason, at: now, policy: policy, jitter: jitter)
      guard record.openNanoseconds > age.inNanoseconds else {
        return Step(answer: .expired, events: [])
      }
      record.shortenOpenTime(by: age.inNanoseconds)
      self = record
    case .reset:
      done = reset(reason: order.reason, at: now)
    case .force(let mode, let time):
      if order.isModeOver(at: now) { return modeIsOver(order, at: now) }
      let left = time.map { max(.zero, $0 - age) }
      done = modeSet(
        to: mode, for: left, reason: order.reason, by: order.authorElsewhere, at: now)
    case .policy:
      return Step(answer: .unneeded, events: [])
    }
    for index in done.events.indices { done.events[index].origin = order.host }
    return Step(answer: .applied, events: done.events)
  }

  /// Ends an earlier mode, which one would have replaced that has ended itself by now.
  private mutating func modeIsOver(_ order: FleetOrder, at now: Moment) -> Step<FleetVerdict> {
    guard let setAt = mode.setAtMilliseconds, setAt <= order.givenAt.wallMilliseconds else {
      return Step(answer: .expired, events: [])
    }
    let event = modeEvent(
      to: .automatic, because: "the mode has expired", at: now, origin: order.host)
    mode = ModeSetting()
    return Step(answer: .applied, events: [event])
  }
}
