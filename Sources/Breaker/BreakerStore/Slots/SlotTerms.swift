package import BreakerCore

/// The limit under which a call is made, as the policy of its breaker has it.
package struct SlotTerms: Sendable, Hashable {
  /// The most units that can be under way, and the most callers that can wait.
  package static let most = SlotFile.slotsOfBlock

  package let limit: CallLimit

  /// How many callers may wait.
  package let places: Int

  /// The revision of the policy: later terms take the place of earlier ones.
  package var revision: Int64

  /// When the ramp ends that the breaker is in, which tells this one from others; nil if it is in none.
  package var rampUntil: Instant?

  /// How many units count as having succeeded when the ramp began.
  package var rampHeadStart = 0

  /// The rate as it is beside the gate; 0 for none.
  package var rate: UInt64 = 0

  /// The limit as it is in the gate.
  package let shape: UInt64

  /// - Parameters:
  ///   - limit: How many units may be under way.
  ///   - places: How many callers may wait.
  ///   - revision: The revision of the policy.
  ///   - rampUntil: When the ramp ends that the breaker is in.
  ///   - rate: How many calls may begin in an interval.
  ///   - isRateOnly: Whether the policy bounds nothing but the rate.
  package init(
    _ limit: CallLimit, places: Int = 0, revision: Int64, rampUntil: Instant? = nil,
    rate: CallRate? = nil, isRateOnly: Bool = false
  ) {
    self.limit = limit
    self.rate = rate.map { RateWord($0, isOnlyBound: isRateOnly).bits } ?? 0
    self.rampUntil = rampUntil
    self.places = min(places, SlotFile.placesOfBlock)
    self.revision = revision
    shape = GateWord(limit).bits
  }
}

/// The answer to a caller that asks for room.
package enum SlotEntry: Sendable, Hashable {
  case begun(HeldSlot)

  /// There is no room, and no place to wait, or the time for the wait is over.
  case busy

  /// The caller was asked whether it still wants to wait, and does not.
  case unwanted

  /// Later terms are in force: the caller has to look at the policy again.
  case outdated

  /// The call begins without room: the table of owners is full, or it is inside of another call of the breaker, or a
  /// rate is all that bounds the calls and there are no more slots.
  case unseen

  package var hasBegun: Bool {
    switch self {
    case .begun, .unseen: true
    case .busy, .unwanted, .outdated: false
    }
  }
}
