/// What was counted outside of the record, in memory that all processes share, since it was last
/// taken in.
package struct HealthyCalls: Sendable, Hashable {
  /// What the totals lack.
  package var totals = Totals()

  /// The successes that the breaker judges: all of them, whenever they came.
  package var successes: Int64 = 0

  /// The successes of each bucket of a window over time, oldest first.
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
  /// Takes in what was counted elsewhere: it came before whatever happens to the record next.
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

  /// Begins a new window if the policy has come to ask for another one.
  mutating func fitWindow(to policy: BreakerPolicy) {
    guard !window.fits(policy) else { return }
    window = CallWindow(for: policy)
    reporters = []
  }
}
