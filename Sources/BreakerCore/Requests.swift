/// Whether a call may go through.
extension BreakerRecord {
  /// What can be said to a request without changing anything.
  ///
  /// `isGone` tells whether the process that owns a lease has ended.
  package func assessed(
    at now: Instant, policy: BreakerPolicy, isGone: (ProcessIdentity) -> Bool
  ) -> Assessment {
    let mode = mode(at: now)
    switch mode {
    case .forcedOpen: return .rejected(forcedRejection(at: now))
    case .forcedClosed: return .permitted(unjudgedGrant(wouldReject: false))
    case .automatic, .observe: break
    }
    switch state {
    case .closed:
      return .permitted(PermitGrant(kind: .normal, generation: generation))
    case .open:
      guard let remaining = openRemaining(at: now), remaining > 0 else { return .undecided }
      return assessedRejection(retryAfter: remaining, mode: mode)
    case .halfOpen:
      let areHeld = leases.allSatisfy { now < $0.deadline && $0.owner.map(isGone) != true }
      // With no probe under way one may always start, or none ever would.
      guard areHeld, let deadline = leases.map({ $0.deadline }).min(), !hasFreeSlot(policy) else {
        return .undecided
      }
      // The first lease to end does so by then, which is when the answer can change.
      return assessedRejection(retryAfter: deadline.since(now), mode: mode)
    }
  }

  /// A caller asks to be let through, and moves the breaker on if it is time to.
  ///
  /// `jitter` is a number from 0 up to 1, drawn by the caller for the case that a probe turns out
  /// to have taken too long and the breaker opens again.
  package mutating func requested(
    at now: Moment, by owner: ProcessIdentity?, policy: BreakerPolicy, jitter: Double,
    isGone: (ProcessIdentity) -> Bool
  ) -> Step<Verdict> {
    var events = expireMode(at: now)
    events += sweepLeases(at: now, policy: policy, jitter: jitter, isGone: isGone)
    // Who is gone was settled by the sweep: asked again, an owner that ends in between would free
    // a slot that is still taken.
    switch assessed(at: now.boot, policy: policy, isGone: { _ in false }) {
    case .permitted(let grant):
      if grant.wouldReject { totals.wouldReject += 1 }
      return Step(answer: .permitted(grant), events: events)
    case .rejected(let rejection):
      totals.rejections += 1
      return Step(answer: .rejected(rejection), events: events)
    case .undecided:
      if state == .open { events.append(halfOpen(at: now)) }
      let grant = grantProbe(at: now.boot, to: owner, policy: policy)
      return Step(answer: .permitted(grant), events: events)
    }
  }

  private func forcedRejection(at now: Instant) -> Rejection {
    // A breaker that stays open for longer than its mode rejects on.
    let remaining = mode.until.map { max($0.since(now), openRemaining(at: now) ?? 0) }
    return Rejection(
      state: state, mode: .forcedOpen, retryAfter: remaining.map { .nanoseconds($0) },
      reason: mode.reason)
  }

  private func unjudgedGrant(wouldReject: Bool) -> PermitGrant {
    PermitGrant(kind: .normal, generation: PermitGrant.unjudged, wouldReject: wouldReject)
  }

  private func assessedRejection(retryAfter: Int64, mode: BreakerMode) -> Assessment {
    if mode == .observe { return .permitted(unjudgedGrant(wouldReject: true)) }
    return .rejected(
      Rejection(state: state, mode: mode, retryAfter: .nanoseconds(retryAfter)))
  }

  /// Whether one more probe may start beside those under way.
  private func hasFreeSlot(_ policy: BreakerPolicy) -> Bool {
    guard leases.count < policy.probes else { return false }
    guard let probeCalls = policy.probeCalls else { return true }
    return Int64(leases.count) + probeSuccesses + probeFailures < Int64(probeCalls)
  }

  private mutating func halfOpen(at now: Moment) -> BreakerEvent {
    enter(.halfOpen, at: now)
    generation += 1
    openUntil = nil
    return BreakerEvent(
      .transition, from: BreakerState.open.wireName, to: state.wireName,
      reason: "the open time is over")
  }

  private mutating func grantProbe(
    at now: Instant, to owner: ProcessIdentity?, policy: BreakerPolicy
  ) -> PermitGrant {
    lastLease += 1
    let deadline = now.advanced(by: policy.probeTimeout.inNanoseconds)
    leases.append(ProbeLease(id: lastLease, owner: owner, deadline: deadline))
    return PermitGrant(
      kind: .probe, generation: generation, lease: lastLease, deadline: deadline)
  }

  /// Takes back the leases of processes that are gone, and fails the probes that took too long.
  mutating func sweepLeases(
    at now: Moment, policy: BreakerPolicy, jitter: Double, isGone: (ProcessIdentity) -> Bool
  ) -> [BreakerEvent] {
    guard isJudging(at: now.boot) else { return [] }
    leases.removeAll { $0.owner.map(isGone) == true }
    while state == .halfOpen, let late = leases.firstIndex(where: { now.boot >= $0.deadline }) {
      leases.remove(at: late)
      if let event = probeFailed(at: now, because: .timeout, policy: policy, jitter: jitter) {
        return [event]
      }
    }
    return []
  }

  /// Ends a mode that has run out.
  mutating func expireMode(at now: Moment) -> [BreakerEvent] {
    guard mode.mode != .automatic, mode(at: now.boot) == .automatic else { return [] }
    let event = BreakerEvent(
      .mode, from: mode.mode.wireName, to: BreakerMode.automatic.wireName,
      reason: "its time is over")
    mode = ModeSetting()
    return [event]
  }
}
