/// What operators, and code, do to a breaker deliberately.
///
/// Each of these requires a record that has been settled at `now`.
extension BreakerRecord {
  /// Opens the breaker now, as a failure would; if it is already open, restarts its open time.
  package mutating func tripped(
    for time: Duration?, reason: String?, at now: Moment, policy: BreakerPolicy, jitter: Double
  ) -> Step<Void> {
    let because = TripReason.operatorSaid(reason.map { OutsideText.cut($0) }, for: time)
    let event =
      state == .open
      ? extend(at: now, because: because, policy: policy, jitter: jitter)
      : open(at: now, because: because, policy: policy, jitter: jitter)
    return Step(answer: (), events: [event])
  }

  /// Closes the breaker and clears its counters; calls under way no longer count.
  package mutating func reset(reason: String?, at now: Moment) -> Step<Void> {
    let from = state
    _ = close(at: now, because: "")
    growth = 0
    let event = BreakerEvent(
      .reset(from: from), reason: reason.map { OutsideText.cut($0) },
      atMilliseconds: now.wallMilliseconds)
    return Step(answer: (), events: [event])
  }

  /// Applies a mode on top of the state, for a time or until it is changed.
  package mutating func modeSet(
    to mode: BreakerMode, for time: Duration?, reason: String?, by author: String, at now: Moment
  ) -> Step<Void> {
    let reason = reason.map { OutsideText.cut($0) }
    let event = modeEvent(to: mode, because: reason, at: now)
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
    return Step(answer: (), events: [event])
  }
}
