import SharedBreaker

/// Why a command failed, as one line for people and one code for programs.
struct ControlError: Error, Hashable {
  var code: ExitCode

  /// The action that failed, the cause, and the remedy, without the program's name.
  var description: String

  init(_ code: ExitCode, _ what: String, _ why: String, _ remedy: String) {
    self.code = code
    description = "\(what): \(why): \(remedy)"
  }

  init(_ code: ExitCode, _ what: String, _ remedy: String) {
    self.init(code, describedAs: "\(what): \(remedy)")
  }

  private init(_ code: ExitCode, describedAs description: String) {
    self.code = code
    self.description = description
  }

  init(_ error: StoreError) { self.init(.storeUnavailable, describedAs: error.description) }

  /// An error of the library, in its own words, with the exit code for it.
  init(_ error: BreakerError) {
    let code: ExitCode =
      switch error {
      case .rejected: .rejected
      case .store, .noRelay: .storeUnavailable
      default: .usage
      }
    self.init(code, describedAs: error.description)
  }

  /// The error for a command line that cannot be understood.
  static func usage(_ what: String, _ why: String, help command: String?) -> ControlError {
    let page = command.map { "cbctl \($0) --help" } ?? "cbctl --help"
    return ControlError(.usage, what, why, "run '\(page)'")
  }

  /// The error for a name that no breaker has; `remedy` is used if no name is similar.
  static func noBreaker(
    _ name: String, among names: [String],
    remedy: String = "run 'cbctl status' to list all names"
  ) -> ControlError {
    let remedy =
      Suggestion.nearest(to: name, among: names).map { "did you mean \(VisibleText.quoted($0))?" }
      ?? remedy
    return ControlError(.noBreaker, "no breaker \(VisibleText.quoted(name))", remedy)
  }
}

/// The exit codes of `cbctl` itself, each with one meaning.
enum ExitCode: Int32, Sendable, CaseIterable {
  case done = 0
  case failed = 1
  case usage = 64
  case noBreaker = 66
  case unconfirmed = 68
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
    case .unconfirmed: "done here, but not every host of the fleet has confirmed it in time"
    case .storeUnavailable: "the store, or a fleet's relay, is unavailable"
    case .rejected: "rejected by a breaker"
    case .timedOut: "run: the command took longer than --timeout"
    case .cannotRun: "run: the command cannot be run"
    case .notFound: "run: the command was not found"
    }
  }

  /// Whether only `run` exits with the code.
  var isOfRunAlone: Bool {
    switch self {
    case .done, .failed, .usage, .noBreaker, .unconfirmed, .storeUnavailable, .rejected: false
    case .timedOut, .cannotRun, .notFound: true
    }
  }
}

/// Guesses the word that the user meant to type.
enum Suggestion {
  /// The longest text that is compared, because comparing takes quadratic time.
  private static let longest = 64

  /// The candidate nearest to a word, or nil if none is near enough.
  static func nearest(to word: String, among candidates: [String]) -> String? {
    guard !word.isEmpty, word.utf8.count <= longest else { return nil }
    let lower = Array(word.lowercased().unicodeScalars)
    var best: (candidate: String, distance: Int)?
    for candidate in candidates where candidate.utf8.count <= longest {
      let other = Array(candidate.lowercased().unicodeScalars)
      let isBeginning = lower.count >= 3 && other.starts(with: lower)
      let near = isBeginning ? .max : max(1, min(lower.count, other.count) / 3)
      // This drops nearly all of a hundred thousand candidates after a few letters.
      let limit = min(near, (best?.distance ?? .max) - 1)
      if let distance = distance(from: lower, to: other, atMost: limit) {
        best = (candidate, distance)
      }
    }
    return best?.candidate
  }

  /// How many letters must be added, dropped, replaced or swapped with their neighbour.
  ///
  /// The result is nil if that is more than `limit`.
  private static func distance(
    from first: [Unicode.Scalar], to second: [Unicode.Scalar], atMost limit: Int
  ) -> Int? {
    var beforeLast: [Int] = []
    var last = Array(0...second.count)
    for row in 0..<first.count {
      var current = [row + 1]
      current.reserveCapacity(last.count)
      for column in 0..<second.count {
        let isSame = first[row] == second[column]
        var least = min(
          last[column] + (isSame ? 0 : 1), last[column + 1] + 1, current[column] + 1)
        if row > 0, column > 0, first[row] == second[column - 1], first[row - 1] == second[column] {
          least = min(least, beforeLast[column - 1] + 1)
        }
        current.append(least)
      }
      // No later row is better than the best of the two rows before it.
      if min(current.min() ?? 0, last.min() ?? 0) > limit { return nil }
      beforeLast = last
      last = current
    }
    return last[second.count] <= limit ? last[second.count] : nil
  }
}
