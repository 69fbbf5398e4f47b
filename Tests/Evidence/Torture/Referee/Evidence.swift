/// Everything that is known of a phase once it is over.
struct Evidence: Sendable {
  var journals: [Journal] = []

  /// The history in the file, in its order.
  var events: [Event] = []

  /// The row of each breaker in the file.
  var rows: [String: Row] = [:]
  var probes = 1
  var probeTimeout: Int64 = 0

  /// When the referee moved the clock of the store, and its time from then on.
  var clock: [When] = []

  /// Whether the file and its breakers stayed the same; otherwise, what they held is gone.
  var isContinuous = true

  /// Whether the counters were never lost, so that each success must be counted.
  var keepsCounters = true

  /// Whether commands may have run before the store and its breakers were created.
  var isColdStart = false

  /// Whether a process may have had to wait for the store for longer than its timeout.
  var mayBeUnavailable = false

  init() {}

  /// The events of a breaker's state, or of its mode.
  func events(of breaker: String, areModes: Bool) -> [Event] {
    events.filter { $0.breaker == breaker && $0.isMode == areModes }
  }

  /// The latest time on the boot clock at which the store's clock had surely not reached a time.
  ///
  /// A clock that is never moved is the boot clock itself.
  func realTime(ofStore time: Int64) -> Int64 {
    guard !clock.isEmpty else { return time }
    return clock.first { $0.store >= time }?.real ?? .max
  }
}

/// An entry of the history.
struct Event: Sendable {
  var id: Int64
  var breaker: String
  var isReset: Bool

  /// Whether the mode was changed, and not the state.
  var isMode = false

  /// Whether an open breaker was tripped, which does not change its state.
  var isExtension = false

  /// Whether the breaker was deleted; one that is created again is closed.
  var isDeletion = false
  var from: String
  var to: String
  var pid: Int32

  init(
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
struct Row: Sendable {
  var state = "closed"
  var generation: Int64 = 1
  var trips: Int64 = 0
  var successes: Int64 = 0
  var failures: Int64 = 0

  /// The number of probes that timed out, from the history that is kept; each is a failure.
  var timeouts: Int64 = 0

  /// Whether the beginning of the breaker's history is no longer kept.
  var isTrimmed = false

  init() {}
}

/// Something that must not have happened.
struct Violation: Sendable, CustomStringConvertible {
  /// The kinds of violations.
  enum Kind: String, Sendable {
    case lostFailure, inventedFailure, lostSuccess, inventedSuccess
    case staleAnswer, tooManyProbes, lateReport
    case brokenChain, lostEvent, doubleEvent, wrongRow
    case exitCode, death, stuck, damage
    case inventedEffect, openedByOthers, disagreement, falseConfirmation
    case tooManyUnderWay, lostRoom, starved, outOfTurn, lostCall, inventedLoss, wrongAnswer
    case inHold, inRamp, tooFast, tooManyRetries
  }

  var kind: Kind
  var text: String

  init(_ kind: Kind, _ text: String) {
    self.kind = kind
    self.text = text
  }

  var description: String { "\(kind.rawValue): \(text)" }
}
