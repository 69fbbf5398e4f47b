/// A moment in two times.
package struct When: Sendable, Hashable {
  /// The host's boot clock, which orders what all processes do.
  package var real: Int64

  /// The clock of the store, which the referee may move.
  package var store: Int64

  package init(real: Int64, store: Int64) {
    self.real = real
    self.store = store
  }
}

/// What a process set out to do with a breaker, and what came of it.
package struct Call: Sendable {
  /// What can be set out to do.
  package enum Action: String, Sendable {
    /// Asks for a permit.
    case acquire

    /// Says how the call of a permit went.
    case report

    /// Makes many calls that go well, one after the other.
    case batch

    /// Makes many calls that fail, one after the other.
    case failures

    /// Asks, runs a command and reports, all in one process.
    case run
    case trip
    case reset

    /// Sets the mode that its detail names.
    case force

    /// Asks whether a call would be let through, and takes no permit.
    case check

    /// Anything that changes nothing.
    case look
  }

  package var action: Action
  package var breaker: String

  /// The process that does it; nil of one whose number nobody has learned.
  package var pid: Int32?

  /// What is to be reported, and of which permit; or what else an action needs to be told.
  package var detail: String
  package var began: When

  /// Nil if the process was killed in it.
  package var ended: When?
  package var answer = ""

  /// Whether the store has surely taken it, and not the process's own breaker in its place.
  package var isByStore = false

  package init(_ action: Action, _ breaker: String, pid: Int32?, detail: String, began: When) {
    self.action = action
    self.breaker = breaker
    self.pid = pid
    self.detail = detail
    self.began = began
  }

  /// Whether it is over, and was surely the store's.
  package var isAcknowledged: Bool { ended != nil && isByStore }
}

/// A change of state that a process was told of, which it has made itself.
package struct Notice: Sendable {
  package var breaker: String
  package var from: String
  package var to: String

  /// No later than the begin of the call that made it.
  package var began: Int64

  /// When the process was told, which is after the commit.
  package var told: Int64

  package init(breaker: String, from: String, to: String, began: Int64, told: Int64) {
    self.breaker = breaker
    self.from = from
    self.to = to
    self.began = began
    self.told = told
  }
}
