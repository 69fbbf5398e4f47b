/// What operators, and code, do to a breaker on purpose.
extension BreakerRecord {
  /// Opens now, as a failure would; an open breaker is kept open from now on.
  package mutating func tripped(
    for time: Duration?, reason: String?, at now: Moment, policy: BreakerPolicy, jitter: Double
  ) -> Step<Void> {
    var events = expireMode(at: now)
    let because = TripReason.operatorSaid(reason.map { OutsideText.cut($0) }, for: time)
    events.append(open(at: now, because: because, policy: policy, jitter: jitter))
    return Step(answer: (), events: events)
  }

  /// Closes with clean counters; calls that are under way no longer count.
  package mutating func reset(reason: String?, at now: Moment) -> Step<Void> {
    var events = expireMode(at: now)
    let from = state
    _ = close(at: now, because: "")
    growth = 0
    events.append(
      BreakerEvent(
        .reset, from: from.wireName, to: state.wireName,
        reason: reason.map { OutsideText.cut($0) }))
    return Step(answer: (), events: events)
  }

  /// Sweeps up after probes that are over, as the next request would.
  package mutating func swept(
    at now: Moment, policy: BreakerPolicy, jitter: Double, isGone: (ProcessIdentity) -> Bool
  ) -> Step<Void> {
    let events = sweepLeases(at: now, policy: policy, jitter: jitter, isGone: isGone)
    return Step(answer: (), events: events)
  }

  /// Lays a mode on top of the state, for a time or until it is taken away.
  package mutating func modeSet(
    to mode: BreakerMode, for time: Duration?, reason: String?, by author: String, at now: Moment
  ) -> Step<Void> {
    var events = expireMode(at: now)
    let from = self.mode.mode
    let reason = reason.map { OutsideText.cut($0) }
    self.mode = ModeSetting()
    if mode != .automatic {
      self.mode.mode = mode
      self.mode.reason = reason
      self.mode.setBy = author
      self.mode.setAtMilliseconds = now.wallMilliseconds
      if let time = time.map({ max(.zero, min($0, BreakerPolicy.longestDuration)) }) {
        self.mode.lengthNanoseconds = time.inNanoseconds
        self.mode.until = now.boot.advanced(by: time.inNanoseconds)
      }
    }
    events.append(BreakerEvent(.mode, from: from.wireName, to: mode.wireName, reason: reason))
    return Step(answer: (), events: events)
  }
}
