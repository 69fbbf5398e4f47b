/// Everything that is known of a phase once it is over.
package struct Evidence: Sendable {
  package var journals: [Journal] = []

  /// The history in the file, in its order.
  package var events: [Event] = []

  /// The row of each breaker in the file.
  package var rows: [String: Row] = [:]
  package var probes = 1
  package var probeTimeout: Int64 = 0

  /// When the referee moved the clock of the store, and its time from then on.
  package var clock: [When] = []

  /// Whether the file and its breakers stayed the same; otherwise, what they held is gone.
  package var isContinuous = true

  /// Whether the counters were never lost, so that each success must be counted.
  package var keepsCounters = true

  /// Whether commands may have run before the store and its breakers were created.
  package var isColdStart = false

  /// Whether a process may have had to wait for the store for longer than its timeout.
  package var mayBeUnavailable = false

  package init() {}

  /// The events of a breaker's state, or of its mode.
  func events(of breaker: String, areModes: Bool) -> [Event] {
    events.filter { $0.breaker == breaker && $0.isMode == areModes }
  }

  /// The latest time on the boot clock at which the store's clock had surely not reached a time.
  ///
  /// A clock that is never moved is the boot clock itself.
  package func realTime(ofStore time: Int64) -> Int64 {
    guard !clock.isEmpty else { return time }
    return clock.first { $0.store >= time }?.real ?? .max
  }
}

/// An entry of the history.
package struct Event: Sendable {
  package var id: Int64
  package var breaker: String
  package var isReset: Bool

  /// Whether the mode was changed, and not the state.
  package var isMode = false

  /// Whether an open breaker was tripped, which does not change its state.
  package var isExtension = false

  /// Whether the breaker was deleted; one that is created again is closed.
  package var isDeletion = false
  package var from: String
  package var to: String
  package var pid: Int32

  package init(
    id: Int64, breaker: String, isReset: Bool = false, from: String, to: String, pid: Int32
  ) {
    self.id = id
    self.breaker = breaker
    self.isReset = isReset
    self.from = from
    self.to = to
    self.pid = pid
  }

  var text: String { "event \(id) (\(isReset ? "reset " : "")\(from)>\(to) by \(pid))" }
}

/// The row of a breaker at the end.
package struct Row: Sendable {
  package var state = "closed"
  package var generation: Int64 = 1
  package var trips: Int64 = 0
  package var successes: Int64 = 0
  package var failures: Int64 = 0

  /// The number of probes that timed out, from the history that is kept; each is a failure.
  package var timeouts: Int64 = 0

  /// Whether the beginning of the breaker's history is no longer kept.
  package var isTrimmed = false

  package init() {}
}

/// Something that must not have happened.
package struct Violation: Sendable, CustomStringConvertible {
  /// The kinds of violations.
  package enum Kind: String, Sendable {
    case lostFailure, inventedFailure, lostSuccess, inventedSuccess
    case staleAnswer, tooManyProbes, lateReport
    case brokenChain, lostEvent, doubleEvent, wrongRow
    case exitCode, death, stuck, damage
    case inventedEffect, openedByOthers, disagreement, falseConfirmation
    case tooManyUnderWay, lostRoom, starved, outOfTurn, lostCall, inventedLoss, wrongAnswer
  }

  package var kind: Kind
  package var text: String

  package init(_ kind: Kind, _ text: String) {
    self.kind = kind
    self.text = text
  }

  package var description: String { "\(kind.rawValue): \(text)" }
}
