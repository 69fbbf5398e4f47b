/// The exit codes of `cbctl` itself, each with one meaning.
enum ExitCode: Int32, Sendable, CaseIterable {
  case done = 0
  case failed = 1
  case usage = 64
  case noBreaker = 66
  case storeUnavailable = 69
  case rejected = 75
  case timedOut = 124
  case cannotRun = 126
  case notFound = 127

  /// The meaning over all commands; the help of a command can be more exact.
  var summary: String {
    switch self {
    case .done: "done"
    case .failed:
      "failed: a report was refused, a wait timed out, doctor has a warning, output was lost"
    case .usage: "wrong usage; nothing was done"
    case .noBreaker: "no such breaker; none was created"
    case .storeUnavailable: "the store, or a fleet's relay, is unavailable"
    case .rejected: "rejected by a breaker"
    case .timedOut: "run: the command took longer than --timeout"
    case .cannotRun: "run: the command cannot be run"
    case .notFound: "run: the command was not found"
    }
  }

  /// Whether the code is one that only `run` gives.
  var isOfRunAlone: Bool {
    switch self {
    case .done, .failed, .usage, .noBreaker, .storeUnavailable, .rejected: false
    case .timedOut, .cannotRun, .notFound: true
    }
  }
}
