/// Something that the history of a breaker records.
package struct BreakerEvent: Sendable, Hashable {
  /// What kind of event it is.
  ///
  /// The integers are stored in files and the wire names appear in JSON, so neither ever changes.
  package enum Kind: Int, Sendable, Hashable, CaseIterable {
    case transition = 0
    case mode = 1
    case reset = 2
    case policy = 3
    case deletion = 4

    /// A probe that ended without a report.
    case probe = 5

    /// An open breaker whose open time was restarted.
    case extended = 6

    package var wireName: String {
      switch self {
      case .transition: "transition"
      case .mode: "mode"
      case .reset: "reset"
      case .policy: "policy"
      case .deletion: "deletion"
      case .probe: "probe"
      case .extended: "extension"
      }
    }
  }

  package var kind: Kind
  package var from: String
  package var to: String
  package var reason: String?

  /// When it happened, by the wall clock; this may be earlier than when it was recorded.
  package var atMilliseconds: Int64

  package init(
    _ kind: Kind, from: String, to: String, reason: String?, atMilliseconds: Int64
  ) {
    self.kind = kind
    self.from = from
    self.to = to
    self.reason = reason
    self.atMilliseconds = atMilliseconds
  }
}

/// The answer of one step of the state machine, and the events that it adds to the history.
package struct Step<Answer> {
  package var answer: Answer
  package var events: [BreakerEvent]
}

extension Step: Sendable where Answer: Sendable {}
