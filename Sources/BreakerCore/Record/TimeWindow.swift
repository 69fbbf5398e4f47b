/// How many calls a window has seen, and how they went.
package struct CallCounts: Sendable, Hashable {
  package var calls: Int64 = 0
  package var failures: Int64 = 0
  package var slow: Int64 = 0

  package init() {}
}

/// Call counts over the most recent period, kept in ten buckets.
///
/// The window covers the current bucket and the nine before it, so it spans from nine tenths of its
/// length to its full length.
package struct TimeWindow: Sendable, Hashable {
  package static let bucketCount = 10

  package struct Bucket: Sendable, Hashable {
    package var epoch: Int64 = -1
    package var counts = CallCounts()

    package init() {}
  }

  /// The length of the whole window.
  package let length: Int64
  package var buckets: [Bucket]

  package init(length: Int64) {
    self.length = length
    buckets = Array(repeating: Bucket(), count: Self.bucketCount)
  }

  /// The width of each bucket in a window of this length.
  package static func width(ofLength length: Int64) -> Int64 {
    max(1, length / Int64(bucketCount))
  }

  private var width: Int64 { Self.width(ofLength: length) }

  private func epoch(of instant: Instant) -> Int64 {
    max(0, instant.nanoseconds) / width
  }

  /// The first instant whose calls count at `now`.
  package func start(at now: Instant) -> Instant {
    Instant(nanoseconds: (epoch(of: now) - Int64(Self.bucketCount) + 1) * width)
  }

  package mutating func add(isFailure: Bool, isSlow: Bool, at now: Instant) {
    let index = bucket(at: now)
    buckets[index].counts.calls += 1
    buckets[index].counts.failures += isFailure ? 1 : 0
    buckets[index].counts.slow += isSlow ? 1 : 0
  }

  /// Adds successful calls, unless their bucket has already left the window.
  package mutating func add(successes: Int64, at instant: Instant) {
    let newest = buckets.reduce(-1) { max($0, $1.epoch) }
    guard epoch(of: instant) > newest - Int64(Self.bucketCount) else { return }
    buckets[bucket(at: instant)].counts.calls += successes
  }

  /// The bucket of an instant, cleared first if it still holds an earlier period.
  private mutating func bucket(at instant: Instant) -> Int {
    let epoch = epoch(of: instant)
    let index = Int(epoch % Int64(Self.bucketCount))
    if buckets[index].epoch != epoch {
      buckets[index] = Bucket()
      buckets[index].epoch = epoch
    }
    return index
  }

  /// Clears buckets that begin after `now` by more than the length of the window.
  mutating func forgetFuture(at now: Instant) {
    let latest = epoch(of: now) + Int64(Self.bucketCount)
    for index in buckets.indices where buckets[index].epoch > latest { buckets[index] = Bucket() }
  }

  package func counts(at now: Instant) -> CallCounts {
    let newest = epoch(of: now)
    let oldest = newest - Int64(Self.bucketCount) + 1
    var sum = CallCounts()
    for bucket in buckets where bucket.epoch >= oldest && bucket.epoch <= newest {
      sum.calls += bucket.counts.calls
      sum.failures += bucket.counts.failures
      sum.slow += bucket.counts.slow
    }
    return sum
  }
}
