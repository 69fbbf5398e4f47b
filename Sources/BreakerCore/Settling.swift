/// What time alone does to a record.
extension BreakerRecord {
  /// Brings the record up to an instant; every step and every look begins with this.
  ///
  /// A mode that ran out ended when it ran out, and a probe that took too long failed at its
  /// deadline, in the order of time and however late anyone finds out. So everyone who only asks
  /// sees what the next caller will, and nothing that begins later can take it back.
  ///
  /// The slot of an owner that is gone is free from now on, which says nothing about the resource.
  /// Past the deadline the probe has failed all the same, because nothing tells when its owner ended.
  ///
  /// `isGone` tells whether the process that owns a lease has ended.
  package mutating func settle(
    at now: Moment, policy: BreakerPolicy, isGone: (ProcessIdentity) -> Bool
  ) -> [BreakerEvent] {
    guard mode.until != nil || !leases.isEmpty else { return [] }
    var events: [BreakerEvent] = []
    let late = leases.filter { now.boot >= $0.deadline }
    for lease in late.sorted(by: { ($0.deadline, $0.id) < ($1.deadline, $1.id) }) {
      let then = now.at(lease.deadline)
      events += endMode(by: then)
      events += timeOut(lease, at: then, policy: policy)
    }
    events += endMode(by: now)
    events += takeBack(leases.filter { $0.owner.map(isGone) == true }, at: now)
    return events
  }

  /// The record as it stands at an instant.
  package func settled(
    at now: Moment, policy: BreakerPolicy, isGone: (ProcessIdentity) -> Bool
  ) -> BreakerRecord {
    var record = self
    _ = record.settle(at: now, policy: policy, isGone: isGone)
    return record
  }

  /// Ends a mode that has run out by then.
  private mutating func endMode(by now: Moment) -> [BreakerEvent] {
    guard let until = mode.until, now.boot >= until else { return [] }
    let event = BreakerEvent(
      .mode, from: mode.mode.wireName, to: BreakerMode.automatic.wireName,
      reason: "its time is over", atMilliseconds: now.at(until).wallMilliseconds)
    mode = ModeSetting()
    return [event]
  }

  /// Fails a probe at its deadline.
  private mutating func timeOut(
    _ lease: ProbeLease, at now: Moment, policy: BreakerPolicy
  ) -> [BreakerEvent] {
    leases.removeAll { $0.id == lease.id }
    count(.failure(error: TripReason.probeTimedOut.text), isSlow: false, at: now)
    let who = lease.owner.map { "process \($0.pid)" } ?? "it"
    let event = BreakerEvent(
      .probe, from: PermitKind.probe.wireName, to: "timed_out",
      reason: "\(who) took longer than probe-timeout", atMilliseconds: now.wallMilliseconds)
    guard isJudging(at: now.boot), lease.generation == generation else { return [event] }
    let opening = probeFailed(
      at: now, because: .timeout, policy: policy, jitter: lease.jitter)
    return [event] + (opening.map { [$0] } ?? [])
  }

  /// Frees the slots of probes whose owners are gone.
  private mutating func takeBack(_ lost: [ProbeLease], at now: Moment) -> [BreakerEvent] {
    lost.map { lease in
      leases.removeAll { $0.id == lease.id }
      return BreakerEvent(
        .probe, from: PermitKind.probe.wireName, to: "lost",
        reason: lease.owner.map { "process \($0.pid) has ended" },
        atMilliseconds: now.wallMilliseconds)
    }
  }
}
