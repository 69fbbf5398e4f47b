internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// What this process knows of one breaker.
final class Known: Sendable {
  let breaker: StoredBreaker
  let policy: BreakerPolicy

  /// Whether the breaker is in the store, or nobody has had anything to write of it yet.
  let exists: Bool

  /// The policy is taken over from what was known before, if it was made of the same words.
  init(_ breaker: StoredBreaker, exists: Bool, before: Known? = nil) {
    self.breaker = breaker
    self.exists = exists
    if let before, before.breaker.codeWords == breaker.codeWords,
      before.breaker.operatorWords == breaker.operatorWords
    {
      policy = before.policy
    } else {
      policy = breaker.policy
    }
  }

  /// The little that a healthy call has to know, in one word.
  var word: UInt64 {
    let record = breaker.record
    let permits = record.state == .closed && record.mode.mode.judges
    let countsOnly = permits && record.streakStartedAt == nil && CallWindow.none.fits(policy)
    return UInt64(bitPattern: record.generation) << 3
      | (permits ? Cell.permitsFlag : 0)
      | (countsOnly ? Cell.countsOnlyFlag : 0)
      | (policy.slowAfter != nil ? Cell.measuresFlag : 0)
  }
}

extension BreakerMode {
  /// Whether the state decides, or would decide.
  fileprivate var judges: Bool {
    switch self {
    case .automatic, .observe: true
    case .forcedOpen, .forcedClosed: false
    }
  }
}

/// This process's side of one breaker: what is known of it, and what is yet to be written.
final class Cell: Sendable {
  /// Set in the word while calls go through and their outcomes count.
  static let permitsFlag: UInt64 = 1

  /// Set in the word while a success changes nothing but a total.
  static let countsOnlyFlag: UInt64 = 2

  /// Set in the word if calls have to be timed.
  static let measuresFlag: UInt64 = 4

  let name: String

  /// Written before the fingerprint that vouches for it, and read after it.
  let word = Atomic<UInt64>(0)

  // Under the engine's lock for cells.
  nonisolated(unsafe) var known: Known?
  nonisolated(unsafe) var declared: String?
  nonisolated(unsafe) var isOverruled = false

  /// Whether what is declared here is yet to be brought to the store.
  nonisolated(unsafe) var isUndeclared = false

  private let successes = Atomic<Int64>(0)
  private let ignored = Atomic<Int64>(0)
  private let failures = Atomic<Int64>(0)
  private let rejections = Atomic<Int64>(0)
  private let slow = Atomic<Int64>(0)
  private let wouldReject = Atomic<Int64>(0)

  init(name: String) { self.name = name }

  func countSuccess() { successes.add(1, ordering: .relaxed) }

  func count(_ totals: Totals) {
    if totals.successes != 0 { successes.add(totals.successes, ordering: .relaxed) }
    if totals.ignored != 0 { ignored.add(totals.ignored, ordering: .relaxed) }
    if totals.failures != 0 { failures.add(totals.failures, ordering: .relaxed) }
    if totals.rejections != 0 { rejections.add(totals.rejections, ordering: .relaxed) }
    if totals.slow != 0 { slow.add(totals.slow, ordering: .relaxed) }
    if totals.wouldReject != 0 { wouldReject.add(totals.wouldReject, ordering: .relaxed) }
  }

  /// The counts that are not in the store yet; the caller writes them, or counts them again.
  func takePending() -> Totals {
    var totals = Totals()
    totals.successes = successes.exchange(0, ordering: .relaxed)
    totals.ignored = ignored.exchange(0, ordering: .relaxed)
    totals.failures = failures.exchange(0, ordering: .relaxed)
    totals.rejections = rejections.exchange(0, ordering: .relaxed)
    totals.slow = slow.exchange(0, ordering: .relaxed)
    totals.wouldReject = wouldReject.exchange(0, ordering: .relaxed)
    return totals
  }

  /// The counts that are not in the store yet, left where they are.
  var pending: Totals {
    var totals = Totals()
    totals.successes = successes.load(ordering: .relaxed)
    totals.ignored = ignored.load(ordering: .relaxed)
    totals.failures = failures.load(ordering: .relaxed)
    totals.rejections = rejections.load(ordering: .relaxed)
    totals.slow = slow.load(ordering: .relaxed)
    totals.wouldReject = wouldReject.load(ordering: .relaxed)
    return totals
  }
}
