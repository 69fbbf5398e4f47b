/// Deciding whether a call may proceed.
extension BreakerRecord {
  /// The answer that a request can be given without changing anything.
  ///
  /// `isGone` reports whether the process that owns a lease has ended.
  package func assessed(
    at now: Instant, policy: BreakerPolicy, isGone: (ProcessIdentity) -> Bool
  ) -> Assessment {
    let mode = mode(at: now)
    switch mode {
    case .forcedOpen: return .rejected(forcedRejection(at: now))
    case .forcedClosed: return .permitted(unjudgedGrant(wouldReject: false))
    case .automatic, .observe: break
    }
    if let remaining = openRemaining(at: now), remaining > 0 {
      // The call can be made when both are over.
      let held = holds.hold?.remaining(at: now) ?? 0
      return assessedRejection(retryAfter: max(remaining, held), mode: mode)
    }
    // Expired or abandoned leases must be recorded before the request can be answered.
    func areHeld() -> Bool {
      leases.allSatisfy { now < $0.deadline && $0.owner.map(isGone) != true }
    }
    if state == .halfOpen, !areHeld() { return .undecided }
    if let answer = assessedHold(at: now, mode: mode, isGone: isGone) { return answer }
    if state == .closed {
      // The end of a ramp must be recorded, so that all processes make healthy calls again.
      if let rampUntil, now >= rampUntil || policy.rampUp == nil { return .undecided }
      // So must the end of a mode that has overruled one.
      if rampUntil != nil, self.mode.mode != mode { return .undecided }
      return .permitted(PermitGrant(kind: .normal, generation: generation))
    }
    guard state == .halfOpen || areHeld(), let slot = nextSlot(after: now, policy) else {
      return .undecided
    }
    return assessedRejection(retryAfter: slot.since(now), mode: mode)
  }

  /// A caller asks for a permit; this changes the breaker if it is time to.
  ///
  /// A probe's lease lasts `probe-timeout`, or `probeTimeout` if that is longer. The record must
  /// have been settled at `now`, so every remaining lease is still held. Checking again whether an
  /// owner has gone could free a slot that this request has counted as taken. The owner is asked for
  /// only if it gets a lease.
  package mutating func requested(
    at now: Moment, by owner: @autoclosure () -> ProcessIdentity?,
    probeTimeout: Duration? = nil, policy: BreakerPolicy
  ) -> Step<Decision<PermitGrant>> {
    var events: [BreakerEvent] = []
    // A policy that is declared with this request may have no ramp any more.
    endRamp(by: now, policy: policy)
    switch assessed(at: now.boot, policy: policy, isGone: { _ in false }) {
    case .permitted(let grant):
      if grant.wouldReject { totals.wouldReject += 1 }
      return Step(answer: .permitted(grant), events: events)
    case .rejected(let rejection):
      if rejection.cause == .held { totals.held += 1 } else { totals.rejections += 1 }
      return Step(answer: .rejected(rejection), events: events)
    case .undecided:
      if state == .closed, let hold = holds.hold {
        let grant = grantFirst(after: hold, at: now.boot, to: owner(), policy: policy)
        return Step(answer: .permitted(grant), events: events)
      }
      if state == .open { events.append(halfOpen(at: now)) }
      let grant = grantProbe(at: now.boot, to: owner(), for: probeTimeout, policy: policy)
      return Step(answer: .permitted(grant), events: events)
    }
  }

  private func forcedRejection(at now: Instant) -> Rejection {
    // A breaker that is open for longer than its mode lasts goes on rejecting after the mode ends.
    let held = holds.hold?.remaining(at: now) ?? 0
    let remaining = mode.until.map { max($0.since(now), openRemaining(at: now) ?? 0, held) }
    return Rejection(
      state: state, mode: .forcedOpen, retryAfter: remaining.map { .nanoseconds($0) },
      reason: mode.reason)
  }

  private func unjudgedGrant(wouldReject: Bool) -> PermitGrant {
    PermitGrant(kind: .normal, generation: PermitGrant.unjudged, wouldReject: wouldReject)
  }

  private func assessedRejection(retryAfter: Int64, mode: BreakerMode) -> Assessment {
    assessedRejection(
      Rejection(
        state: state, mode: mode, retryAfter: .nanoseconds(retryAfter), reason: openReason))
  }

  func assessedRejection(_ rejection: Rejection) -> Assessment {
    if rejection.mode == .observe { return .permitted(unjudgedGrant(wouldReject: true)) }
    return .rejected(rejection)
  }

  private mutating func halfOpen(at now: Moment) -> BreakerEvent {
    enter(.halfOpen, at: now)
    openUntil = nil
    return BreakerEvent(
      .transition(from: .open, to: state), reason: "the open time is over",
      atMilliseconds: now.wallMilliseconds)
  }
}
