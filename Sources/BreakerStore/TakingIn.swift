internal import BreakerCore

/// How rows and the shared page keep to each other.
///
/// A row names its counters by a random key, and says what it has taken in of them. Counters with
/// another key were lost, or are not this row's: then what went well since the row was written is
/// not known, and its window begins anew rather than show too large a share of failures.
extension CounterPage {
  /// The counters of a row; nil if it has none, or has lost them.
  func counters(of breaker: StoredBreaker) -> Counters? {
    guard breaker.countersKey != 0, let counters = counters(ofBreaker: breaker.id),
      counters.key == breaker.countersKey
    else { return nil }
    return counters
  }

  /// Takes in what was counted since the row was written.
  func takeIn(to breaker: inout StoredBreaker, at clock: StoreClock) {
    breaker.agreed.value = breaker.agreedPolicy
    guard let counters = counters(of: breaker) else { return }
    var counted = counters.read()
    var calls = HealthyCalls()
    guard counted != breaker.takenIn else { return }
    let policy = breaker.policy
    if let length = policy.window?.inNanoseconds, let marks = counters.marks {
      let width = TimeWindow.width(ofLength: length)
      calls.buckets =
        marks.buckets(
          upTo: max(0, clock.instant.nanoseconds) / width, width: width,
          since: breaker.takenIn.successes
        ) {
          counted = counters.read()
          return counted.successes
        }.buckets
    }
    guard let passed = counted.since(breaker.takenIn) else { return }
    calls.totals = passed.totals
    calls.successes = passed.successes
    breaker.record.takeIn(calls, policy: policy)
    breaker.takenIn = counted
  }

  /// Gives a row counters if it has none that are its own; in a transaction that will write it.
  func tie(to breaker: inout StoredBreaker) {
    if isTied(breaker) { return }
    // Another process may have put a new file in the place of the one that is mapped here.
    lookAfterFile()
    if !isTied(breaker) { renew(&breaker) }
  }

  private func isTied(_ breaker: StoredBreaker) -> Bool {
    counters(of: breaker).map { $0.read().since(breaker.takenIn) != nil } ?? false
  }

  /// Forgets when buckets began if the policy has come to ask for others.
  func forgetMarks(of breaker: StoredBreaker, ifChangedSince before: StoredBreaker) {
    guard breaker.codeWords != before.codeWords || breaker.operatorWords != before.operatorWords,
      breaker.policy.window != before.policy.window
    else { return }
    counters(of: breaker)?.marks?.clear()
  }

  private func renew(_ breaker: inout StoredBreaker) {
    guard let counters = counters(ofBreaker: breaker.id) else { return }
    // Who still has the old key does not count here any more once it has seen the new one.
    counters.key = 0
    breaker.takenIn = counters.read()
    counters.marks?.clear()
    breaker.countersKey = .random(in: 1 ... .max)
    counters.key = breaker.countersKey
    breaker.record.window = .none
  }
}
