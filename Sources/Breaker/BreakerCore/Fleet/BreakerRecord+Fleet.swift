extension BreakerPolicy {
  /// The time over which the hosts of a fleet spread their suspicions, each at a random moment of it.
  ///
  /// In a fleet of twenty hosts or more it is long enough for about 25 probes a second, but at most
  /// ten seconds, `fleet-spread`, or half of `open-for`, after which a suspicion has no effect.
  ///
  /// - Parameter hosts: How many hosts of the fleet were seen lately.
  /// - Returns: The time; zero in a smaller fleet, whose probes do no harm.
  @_spi(Relay) public func suspicionSpread(ofFleet hosts: Int) -> Duration {
    guard hosts >= 20 else { return .zero }
    let usual = Duration.milliseconds(min(10_000, 40 * Int64(clamping: min(hosts, 1_000))))
    return min(usual, openFor / 2, fleetSpread ?? usual)
  }
}

/// Changes that news from other hosts of a fleet causes.
///
/// Each of these requires a record that has been settled at `now`.
extension BreakerRecord {
  /// Other hosts have the breaker open: the next call becomes a probe, whose outcome decides.
  ///
  /// Between two suspicions the breaker is closed for at least `open-for`, so that a fleet that is
  /// wrong about this host costs it one call now and then.
  ///
  /// - Returns: Whether the breaker became half-open.
  package mutating func suspected(
    by hosts: Int, at now: Moment, policy: BreakerPolicy
  ) -> Step<Bool> {
    guard state == .closed, isJudging(at: now.boot), let quorum = policy.fleetQuorum,
      hosts >= quorum.least,
      !wasJustSuspected(at: now.boot, policy: policy)
    else { return Step(answer: false, events: []) }
    enter(.halfOpen, at: now)
    probeSuccesses = 0
    probeFailures = 0
    suspectedAt = now.boot
    let event = BreakerEvent(
      .suspicion(from: .closed, to: state),
      reason: "suspected by \(CountedNoun.text(Int64(hosts), "host"))",
      atMilliseconds: now.wallMilliseconds)
    return Step(answer: true, events: [event])
  }

  /// Another host of the fleet was told to leave the resource alone, which holds calls of this host too.
  ///
  /// - Parameters:
  ///   - hold: What the other host tells.
  ///   - host: The other host.
  ///   - end: The latest stamp of a command to end holds that this host knows; 0 if none.
  ///   - now: The time.
  ///   - policy: The policy in force, whose `hold-max` cuts the time.
  /// - Returns: What became of it; `overtaken` if it was ended before it came.
  package mutating func heard(
    _ hold: FleetHold, on host: String, after end: Int64, at now: Moment, policy: BreakerPolicy
  ) -> Step<FleetVerdict> {
    func nothing(_ verdict: FleetVerdict) -> Step<FleetVerdict> {
      Step(answer: verdict, events: [])
    }
    guard policy.fleetHold else { return nothing(.unneeded) }
    guard hold.left > .zero else { return nothing(.expired) }
    guard hold.after >= end, !wasEnded(sinceBefore: hold.age, at: now) else {
      return nothing(.overtaken)
    }
    let wish = CallOutcome.Hold(.lasting(hold.left + max(.zero, hold.age)), reason: hold.reason)
    let done = heldBack(wish, by: .host(host, hold), at: now, policy: policy)
    guard case .holds = done.answer else { return nothing(.unneeded) }
    return Step(answer: .applied, events: done.events)
  }

  /// Whether a hold was ended on this host after one of this age was set elsewhere.
  private func wasEnded(sinceBefore age: Duration, at now: Moment) -> Bool {
    // One in the future comes from a clock that was wrong.
    guard let ended = holds.endedAtMilliseconds, ended <= now.wallMilliseconds else { return false }
    return now.wallMilliseconds.subtractingSaturating(max(0, age.inNanoseconds) / 1_000_000)
      <= ended
  }

  private func wasJustSuspected(at now: Instant, policy: BreakerPolicy) -> Bool {
    guard suspectedAt != nil, let closedSince = tally.since else { return false }
    return now.since(closedSince) < policy.openFor.inNanoseconds
  }

  /// Whether a recovery elsewhere shortened an open time within the latest `open-for`.
  private func hasJustRecovered(at now: Instant, policy: BreakerPolicy) -> Bool {
    recoveredAt.map { now.since($0) < policy.openFor.inNanoseconds } ?? false
  }

  /// Whether the breaker is half-open because other hosts have it open.
  var isSuspected: Bool {
    state == .halfOpen && suspectedAt.map { $0 == tally.since } ?? false
  }

  /// Closes a breaker whose suspicion was wrong, and keeps what it had counted before.
  mutating func acquit(
    at now: Moment, because reason: String, policy: BreakerPolicy
  ) -> BreakerEvent {
    let from = state
    enter(.closed, at: now)
    consecutiveFailures = 0
    streakStartedAt = nil
    openUntil = nil
    probeSuccesses = 0
    probeFailures = 0
    beginRamp(at: now, policy: policy)
    return BreakerEvent(
      .suspicion(from: from, to: state), reason: reason, atMilliseconds: now.wallMilliseconds)
  }

  /// A probe has succeeded on another host: the open time ends within `fleet-spread`.
  ///
  /// An open time stays as it is if an operator or a failure named it, or if it ends within
  /// `fleet-spread` anyway: if each of several recoveries could shorten it, the hosts of a fleet
  /// would come back much closer together. Nor does it become shorter twice within `open-for`, so
  /// that a fleet that is wrong about this host costs it one probe now and then.
  ///
  /// - Parameters:
  ///   - host: The other host.
  ///   - now: The time.
  ///   - policy: The policy in force.
  ///   - part: The part of `fleet-spread` to wait, from 0 up to 1, so that the hosts of a fleet do
  ///     not probe all at once.
  /// - Returns: Whether the open time became shorter.
  package mutating func recovered(
    on host: String, at now: Moment, policy: BreakerPolicy, part: Double
  ) -> Step<Bool> {
    guard state == .open, isJudging(at: now.boot), !isOpenTimeNamed, let openUntil,
      let spread = policy.fleetSpread?.inNanoseconds, spread > 0
    else { return Step(answer: false, events: []) }
    let left = openUntil.since(now.boot)
    guard left > spread, !hasJustRecovered(at: now.boot, policy: policy) else {
      return Step(answer: false, events: [])
    }
    recoveredAt = now.boot
    shortenOpenTime(by: left - Int64(Double(spread) * part))
    let event = BreakerEvent(
      .recovery, reason: "\(host) recovered", atMilliseconds: now.wallMilliseconds, origin: host)
    return Step(answer: true, events: [event])
  }
}
