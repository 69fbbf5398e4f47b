/// Calls counted in memory that all processes share, and not yet taken in by the record.
package struct HealthyCalls: Sendable, Hashable {
  /// What to add to the record's totals.
  package var totals = BreakerTotals()

  /// The successes that the breaker judges, whenever they happened.
  package var successes: Int64 = 0

  /// The successes in each bucket of a time window, oldest first.
  package var buckets: [Bucket] = []

  package struct Bucket: Sendable, Hashable {
    package var start: Instant
    package var successes: Int64

    package init(start: Instant, successes: Int64) {
      self.start = start
      self.successes = successes
    }
  }

  package init() {}
}

extension BreakerRecord {
  /// Takes in calls counted elsewhere, which happened before the record's next change.
  package mutating func takeIn(_ calls: HealthyCalls, policy: BreakerPolicy) {
    totals += calls.totals
    guard state == .closed, calls.successes > 0 else { return }
    fitWindow(to: policy)
    switch window {
    case .none:
      break
    case .time(var time):
      window = .none
      for bucket in calls.buckets { time.add(successes: bucket.successes, at: bucket.start) }
      window = .time(time)
    case .last(var last):
      window = .none
      last.add(successes: calls.successes)
      window = .last(last)
    }
  }

  /// Starts a new window if the policy now asks for a different one.
  mutating func fitWindow(to policy: BreakerPolicy) {
    guard !window.fits(policy) else { return }
    window = CallWindow(for: policy)
    reporters = []
  }
}
