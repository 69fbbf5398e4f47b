/// A moment on two clocks.
struct When: Sendable, Hashable {
  /// The host's boot clock, which orders the actions of all processes.
  var real: Int64

  /// The clock of the store, which the referee may move.
  var store: Int64

  init(real: Int64, store: Int64) {
    self.real = real
    self.store = store
  }
}

/// A planned act of a process with a breaker, and the result.
struct Call: Sendable {
  /// The acts of a process.
  enum Action: String, Sendable {
    /// Asks for a permit.
    case acquire

    /// Reports how the call of a permit went.
    case report

    /// Makes many calls that succeed, one after the other.
    case batch

    /// Makes many calls that fail, one after the other.
    case failures

    /// Asks, runs a command and reports, all in one process.
    case run
    case trip
    case reset

    /// Sets the mode that its detail names.
    case force

    /// Asks whether a call would be permitted, and takes no permit.
    case check

    /// Anything that changes nothing.
    case look
  }

  var action: Action
  var breaker: String

  /// The process that does it; nil if its number is not known.
  var pid: Int32?

  /// The outcome to report and its permit, or another argument of the action.
  var detail: String
  var began: When

  /// When the call ended; nil if the process was killed in it.
  var ended: When?
  var answer = ""

  /// Whether the store has surely recorded it, and not the process's own breaker in its place.
  var isByStore = false

  init(_ action: Action, _ breaker: String, pid: Int32?, detail: String, began: When) {
    self.action = action
    self.breaker = breaker
    self.pid = pid
    self.detail = detail
    self.began = began
  }

  /// Whether the call has ended, and the store has surely recorded it.
  var isAcknowledged: Bool { ended != nil && isByStore }
}

/// A change of state that a process has made itself and was notified of.
struct Notice: Sendable {
  var breaker: String
  var from: String
  var to: String

  /// No later than the beginning of the call that made the change.
  var began: Int64

  /// When the process was notified, which is after the commit.
  var told: Int64

  init(breaker: String, from: String, to: String, began: Int64, told: Int64) {
    self.breaker = breaker
    self.from = from
    self.to = to
    self.began = began
    self.told = told
  }
}
