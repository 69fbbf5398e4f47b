/// Commands that operators and code give deliberately.
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
  ///
  /// `byFleet` says that a command of the fleet does it.
  package mutating func reset(
    reason: String?, byFleet: Bool = false, at now: Moment, policy: BreakerPolicy
  ) -> Step<Void> {
    let from = state
    let (letCallsThrough, ramp) = (
      from == .closed && holds.hold == nil, (rampUntil, rampHeadStart)
    )
    _ = close(at: now, because: "", policy: policy)
    resetHold(byFleet: byFleet, at: now)
    beginRamp(at: now, policy: policy)
    // Nothing has kept calls back that could all come now.
    if letCallsThrough { (rampUntil, rampHeadStart) = ramp }
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

/// Commands that were given on another host.
extension BreakerRecord {
  /// Carries out a command to the state or to the mode as if it had arrived at once.
  ///
  /// A time in it is counted from when the command was given.
  ///
  /// - Parameters:
  ///   - order: The command; one to the policy changes nothing here.
  ///   - isRemembered: Whether the command was given while this host did not listen. Then a reset
  ///     applies only if the state has not changed since.
  ///   - now: The time.
  ///   - policy: The policy in force.
  ///   - jitter: A number from 0 up to 1, in case the command opens the breaker.
  /// - Returns: The effect of the command.
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
      done = reset(reason: order.reason, byFleet: true, at: now, policy: policy)
    case .endHold:
      guard let hold = holds.hold, !hold.outlives(order, isRemembered: isRemembered) else {
        return Step(answer: .unneeded, events: [])
      }
      done = Step(
        answer: (),
        events: holdEnded(reason: order.reason, byFleet: true, at: now, policy: policy).events)
    case .force(let mode, let time):
      if order.isModeOver(at: now) { return modeIsOver(order, at: now) }
      let left = time.map { max(.zero, $0 - age) }
      done = modeSet(
        to: mode, for: left, reason: order.reason, by: order.giver.description, at: now)
    case .policy:
      return Step(answer: .unneeded, events: [])
    }
    return Step(answer: .applied, events: done.events.map { $0.given(by: order.giver) })
  }

  /// Ends an earlier mode, which the command would have replaced; its own mode is over by now.
  private mutating func modeIsOver(_ order: FleetOrder, at now: Moment) -> Step<FleetVerdict> {
    guard let setAt = mode.setAtMilliseconds, setAt <= order.givenAt.wallMilliseconds else {
      return Step(answer: .expired, events: [])
    }
    let event = modeEvent(to: .automatic, because: "the mode has expired", at: now)
      .given(by: order.giver)
    mode = ModeSetting()
    return Step(answer: .applied, events: [event])
  }
}

extension Hold {
  /// Whether a command of the fleet to end holds was given before this hold, and so does not end it.
  ///
  /// The other host of a hold that was heard says which commands it knew then. A hold of this host is later than a
  /// command that comes late if the clock says so; one that comes in time was given before this host knew of it.
  fileprivate func outlives(_ order: FleetOrder, isRemembered: Bool) -> Bool {
    host != nil ? after >= order.stamp : isRemembered && setAt > order.givenAt.boot
  }
}
