/// All that is known of a phase once it is over.
package struct Evidence: Sendable {
  package var journals: [Journal] = []

  /// What the file says happened, in its order.
  package var events: [Event] = []

  /// What the file says of each breaker.
  package var rows: [String: Row] = [:]
  package var probes = 1
  package var probeTimeout: Int64 = 0

  /// When the referee moved the clock of the store, and what it said from then on.
  package var clock: [When] = []

  /// Whether file and breakers were the same from beginning to end: else what they held is gone.
  package var isContinuous = true

  /// Whether the counters were never lost, so that each success has to be there.
  package var keepsCounters = true

  /// Whether commands may have come before the store and its breakers were made.
  package var isColdStart = false

  /// Whether a process may have had to wait for longer than it does.
  package var mayBeUnavailable = false

  package init() {}

  /// What happened to the state of a breaker, or to its mode.
  func events(of breaker: String, areModes: Bool) -> [Event] {
    events.filter { $0.breaker == breaker && $0.isMode == areModes }
  }

  /// When the clock of the store had surely not yet reached a time, on the boot clock.
  ///
  /// A clock that nobody moves is the boot clock itself.
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

  /// Whether it is the mode that was changed, and not the state.
  package var isMode = false

  /// Whether an open breaker was tripped, which leaves it as it is.
  package var isExtension = false

  /// Whether the breaker was deleted, which is then closed for whoever makes it again.
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

/// A breaker as the file has it in the end.
package struct Row: Sendable {
  package var state = "closed"
  package var generation: Int64 = 1
  package var trips: Int64 = 0
  package var successes: Int64 = 0
  package var failures: Int64 = 0

  /// How many probes have run out of time, by what is kept of its history: each is a failure.
  package var timeouts: Int64 = 0

  /// Whether the beginning of its history is no longer kept.
  package var isTrimmed = false

  package init() {}
}

/// Something that must not have happened.
package struct Violation: Sendable, CustomStringConvertible {
  /// What kinds there are.
  package enum Kind: String, Sendable {
    case lostFailure, inventedFailure, lostSuccess, inventedSuccess
    case staleAnswer, tooManyProbes, lateReport
    case brokenChain, lostEvent, doubleEvent, wrongRow
    case exitCode, death, stuck, damage
  }

  package var kind: Kind
  package var text: String

  package init(_ kind: Kind, _ text: String) {
    self.kind = kind
    self.text = text
  }

  package var description: String { "\(kind.rawValue): \(text)" }
}
