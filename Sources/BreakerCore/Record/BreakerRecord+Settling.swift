/// What the passage of time alone does to a record.
extension BreakerRecord {
  /// Brings the record up to an instant; every step and every read starts with this.
  ///
  /// A mode that expired ended at its expiry, and a probe that took too long failed at its
  /// deadline. Both are applied in order of time, however late a process notices. A reader
  /// therefore sees the same record as the next caller, and nothing that begins later can undo it.
  ///
  /// If the owner of a lease is gone, its slot is free from now on; that says nothing about the
  /// resource. Once the deadline has passed, the probe has failed even if its owner is gone,
  /// because nothing tells when the owner ended (rule of order 11).
  ///
  /// `isGone` reports whether the process that owns a lease has ended.
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

  /// Ends a mode that has expired by then.
  private mutating func endMode(by now: Moment) -> [BreakerEvent] {
    guard let until = mode.until, now.boot >= until else { return [] }
    let event = modeEvent(to: .automatic, because: "the mode has expired", at: now.at(until))
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
      .probe(.timedOut), reason: "\(who) took longer than probe-timeout",
      atMilliseconds: now.wallMilliseconds)
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
        .probe(.lost), reason: lease.owner.map { "process \($0.pid) has ended" },
        atMilliseconds: now.wallMilliseconds)
    }
  }
}
