internal import BreakerCore
internal import BreakerStore

/// What a process knows of one breaker, as it was last read.
final class Known: Sendable {
  let breaker: StoredBreaker

  /// Whether the breaker is in the store; false before its first call.
  let exists: Bool

  /// Where all processes count successes; nil if the breaker has no such place.
  let counters: Counters?

  init(_ breaker: StoredBreaker, exists: Bool, counters: Counters? = nil) {
    self.breaker = breaker
    self.exists = exists
    self.counters = counters
  }

  var policy: BreakerPolicy { breaker.policy }

  /// The record as it stands at an instant.
  func record(at now: Moment, isGone: (ProcessIdentity) -> Bool) -> BreakerRecord {
    breaker.record.settled(at: now, policy: policy, isGone: isGone)
  }

  /// What healthy calls have to know of it.
  var word: CellWord {
    // The first call creates the breaker, so that other processes can find it.
    guard exists else { return .unknown }
    let record = breaker.record
    let permits =
      record.state == .closed && record.mode.mode.isJudging
      && record.generation <= CellWord.latestGeneration && CellWord.knowsThisFork
    let hasWindow = !CallWindow.none.fits(policy)
    let countsOnly = permits && record.streakStartedAt == nil && (!hasWindow || counters != nil)
    let rejects = record.state == .open && record.mode.mode == .automatic
    let flags =
      (permits ? CellWord.permits : 0) | (countsOnly ? CellWord.countsOnly : 0)
      | (policy.slowAfter != nil ? CellWord.measures : 0)
      | (policy.window != nil ? CellWord.marks : 0) | (rejects ? CellWord.rejects : 0)
    return CellWord(flags: flags, of: breaker)
  }
}
