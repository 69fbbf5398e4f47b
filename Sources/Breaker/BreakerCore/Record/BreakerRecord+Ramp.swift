/// The ramp after a close or a hold: as many calls are under way as have succeeded since, and one more.
///
/// The record knows only until when. Successes change with each call, so they are counted beside the slots.
extension BreakerRecord {
  /// Begins a ramp if the policy asks for one, and no hold keeps calls back.
  mutating func beginRamp(at now: Moment, policy: BreakerPolicy, headStart: Int64 = 0) {
    guard holds.hold == nil, let time = policy.rampUp else { return noRamp() }
    rampUntil = now.boot.advanced(by: time.inNanoseconds)
    rampHeadStart = headStart
  }

  /// Keeps back no call because of a ramp.
  mutating func noRamp() { (rampUntil, rampHeadStart) = (nil, 0) }

  /// Ends a ramp whose time is over, or which the policy does not ask for any more.
  mutating func endRamp(by now: Moment, policy: BreakerPolicy) {
    if let rampUntil, now.boot >= rampUntil || policy.rampUp == nil { noRamp() }
  }

  /// Until when only as many calls are under way as have succeeded since the ramp began; nil if there is no ramp.
  package func rampEnd(at now: Instant) -> Instant? {
    guard state == .closed, holds.hold == nil, mode(at: now) != .forcedClosed, let rampUntil,
      now < rampUntil
    else { return nil }
    return rampUntil
  }
}
