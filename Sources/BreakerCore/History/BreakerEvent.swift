/// Something that the history of a breaker records.
package struct BreakerEvent: Sendable, Hashable {
  package var change: BreakerChange
  package var reason: String?

  /// When it happened, by the wall clock; this may be earlier than when it was recorded.
  package var atMilliseconds: Int64

  /// The host of the fleet that it came from; nil for this host.
  package var origin: String?

  /// Whether calls begin to be rejected with it, which depends on the mode too.
  package var beginsOutage: Bool

  package init(
    _ change: BreakerChange, reason: String?, atMilliseconds: Int64, origin: String? = nil,
    beginsOutage: Bool? = nil
  ) {
    self.change = change
    self.reason = reason
    self.atMilliseconds = atMilliseconds
    self.origin = origin
    self.beginsOutage = beginsOutage ?? change.beginsOutage
  }
}

/// The answer of one step of the state machine, and the events that it adds to the history.
package struct Step<Answer> {
  package var answer: Answer
  package var events: [BreakerEvent]
}

extension Step: Sendable where Answer: Sendable {}
