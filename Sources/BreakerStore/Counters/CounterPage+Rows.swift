internal import BreakerCore

/// How rows and the counter page stay consistent.
///
/// A row names its counters by a random key, and records how much of them it has taken in. Counters
/// with another key were lost, or belong to another row. The successes since the row was last
/// written are then unknown, so its window starts from scratch rather than show too high a share of
/// failures.
///
/// The key is negative while every success is written to the row, because a process that wrote the
/// row could not reach its counters.
extension CounterPage {
  /// Where the successes of a row are counted; nil if it has no such counters, or has lost them.
  func counters(of breaker: StoredBreaker) -> Counters? {
    breaker.countersKey > 0 ? ownCounters(of: breaker) : nil
  }

  /// The counters that a row names, whether or not they are in use.
  private func ownCounters(of breaker: StoredBreaker) -> Counters? {
    guard breaker.countersKey != 0 else { return nil }
    if let counters = mappedCounters(of: breaker) { return counters }
    // Another process may have replaced the file that is mapped here.
    lookAfterFile()
    return mappedCounters(of: breaker)
  }

  private func mappedCounters(of breaker: StoredBreaker) -> Counters? {
    guard let counters = counters(ofBreaker: breaker.id),
      counters.key.magnitude == breaker.countersKey.magnitude
    else { return nil }
    return counters
  }

  /// Takes in what was counted since the row was written.
  func takeIn(to breaker: inout StoredBreaker, at now: Instant) {
    guard let counters = ownCounters(of: breaker) else {
      if breaker.countersKey > 0 { breaker.usedAtMilliseconds = nil }
      return
    }
    let counted = counters.read()
    if counted != breaker.takenIn { breaker.usedAtMilliseconds = nil }
    guard counted != breaker.takenIn, let passed = counted.since(breaker.takenIn),
      !areDamaged(counters, of: breaker, at: now)
    else { return }
    var calls = HealthyCalls()
    calls.totals = passed.totals
    let policy = breaker.policy
    // While every success is written to the row, it is already in the window.
    if breaker.countersKey > 0 {
      calls.successes = passed.successes
      if let length = policy.window?.inNanoseconds, let marks = counters.marks {
        calls.buckets = marks.buckets(
          at: now, width: TimeWindow.width(ofLength: length), total: counted.successes,
          latest: passed.successes)
      }
    }
    breaker.record.takeIn(calls, policy: policy)
    breaker.takenIn = counted
  }

  /// Gives a row new counters if it has lost its own; the transaction must then write the row.
  func tie(to breaker: inout StoredBreaker, at now: Instant) {
    guard let counters = ownCounters(of: breaker), counters.read().since(breaker.takenIn) != nil,
      !areDamaged(counters, of: breaker, at: now)
    else {
      renew(&breaker)
      return
    }
    if breaker.countersKey < 0 { breaker.countersKey = counters.key }
  }

  private func areDamaged(
    _ counters: Counters, of breaker: StoredBreaker, at now: Instant
  ) -> Bool {
    guard let length = breaker.policy.window?.inNanoseconds, let marks = counters.marks else {
      return false
    }
    let width = TimeWindow.width(ofLength: length)
    return marks.isAnyAhead(of: { counters.successes }, at: now, width: width)
  }

  private func renew(_ breaker: inout StoredBreaker) {
    guard let counters = counters(ofBreaker: breaker.id) else {
      doWithout(&breaker)
      return
    }
    // A process that still has the old key stops counting here once it has seen the new one.
    counters.key = 0
    breaker.takenIn = counters.read()
    counters.marks?.clear()
    breaker.countersKey = .random(in: 1 ... .max)
    counters.key = breaker.countersKey
    breaker.record.window = .none
  }

  /// Switches to writing every success if the row has a window: other counts are invisible here.
  private func doWithout(_ breaker: inout StoredBreaker) {
    guard breaker.countersKey > 0, !CallWindow.none.fits(breaker.policy) else { return }
    breaker.countersKey = -breaker.countersKey
    breaker.record.window = .none
  }
}
