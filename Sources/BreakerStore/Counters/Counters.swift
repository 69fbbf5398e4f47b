package import BreakerCore
internal import CHost

/// The counters of one breaker, in memory to which several processes may add at once.
///
/// They only ever grow; a record remembers their values to know what it has taken in. They are
/// valid for the life of the storage that handed them out. Unchecked because all access is atomic.
@safe package struct Counters: @unchecked Sendable {
  /// The address of the counters, in the order of `SB_COUNTER_SUCCESSES` and the constants after it.
  package let address: UnsafeMutablePointer<UInt64>

  /// When the buckets of a time window began; nil in memory private to this process.
  package let marks: BucketMarks?

  package init(at address: UnsafeMutablePointer<UInt64>, marks: BucketMarks? = nil) {
    unsafe self.address = address
    self.marks = marks
  }

  /// Begins the current bucket of a time window; call this before counting its first success.
  ///
  /// - Returns: How much longer the bucket lasts; 0 if there are no buckets here.
  package func beginBucket(ofWindow length: Int64, at now: () -> Instant) -> Int64 {
    unsafe marks?.begin(
      width: TimeWindow.width(ofLength: length), at: now, counting: pointer(SB_COUNTER_SUCCESSES))
      ?? 0
  }

  /// Ties the counters to one row, and shows whether they have been lost since; 0 for none.
  var key: Int64 {
    get { unsafe Int64(bitPattern: sb_load(pointer(SB_COUNTER_KEY))) }
    nonmutating set { unsafe sb_set(pointer(SB_COUNTER_KEY), UInt64(bitPattern: newValue)) }
  }

  private func pointer(_ word: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe address.advanced(by: word)
  }

  package func add(_ counts: Counted) {
    add(counts.successes, to: SB_COUNTER_SUCCESSES)
    add(counts.unjudged, to: SB_COUNTER_UNJUDGED)
    add(counts.ignored, to: SB_COUNTER_IGNORED)
    add(counts.rejections, to: SB_COUNTER_REJECTIONS)
    add(counts.slow, to: SB_COUNTER_SLOW)
    add(counts.wouldReject, to: SB_COUNTER_WOULD_REJECT)
  }

  private func add(_ count: Int64, to word: Int) {
    if count != 0 { unsafe sb_add(pointer(word), UInt64(bitPattern: count)) }
  }

  /// The successes that have been counted so far.
  var successes: Int64 { unsafe Int64(bitPattern: sb_load(pointer(SB_COUNTER_SUCCESSES))) }

  /// What has been counted so far.
  package func read() -> Counted { counted { unsafe sb_load(pointer($0)) } }

  /// Takes what has been counted since the last call; the caller must keep it.
  package func take() -> Counted { counted { unsafe sb_exchange(pointer($0), 0) } }

  private func counted(_ value: (Int) -> UInt64) -> Counted {
    var counted = Counted()
    counted.successes = Int64(bitPattern: value(SB_COUNTER_SUCCESSES))
    counted.unjudged = Int64(bitPattern: value(SB_COUNTER_UNJUDGED))
    counted.ignored = Int64(bitPattern: value(SB_COUNTER_IGNORED))
    counted.rejections = Int64(bitPattern: value(SB_COUNTER_REJECTIONS))
    counted.slow = Int64(bitPattern: value(SB_COUNTER_SLOW))
    counted.wouldReject = Int64(bitPattern: value(SB_COUNTER_WOULD_REJECT))
    return counted
  }
}

/// Counters in memory private to this process, for breakers that have none in the counter page.
extension Counters {
  package static func allocate() -> Counters {
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: SB_COUNTER_WORDS)
    unsafe words.initialize(repeating: 0, count: SB_COUNTER_WORDS)
    return unsafe Counters(at: words)
  }

  package func deallocate() { unsafe address.deallocate() }
}

/// A reading of the counters.
package struct Counted: Sendable, Hashable {
  /// Successes that the breaker judges.
  package var successes: Int64 = 0

  /// Successes that came too late to be judged, or while a mode was forced.
  package var unjudged: Int64 = 0
  package var ignored: Int64 = 0
  package var rejections: Int64 = 0
  package var slow: Int64 = 0
  package var wouldReject: Int64 = 0

  package init() {}

  package var isZero: Bool { self == Counted() }

  /// What was counted between two readings; nil if the difference is impossible.
  func since(_ earlier: Counted) -> Counted? {
    var passed = Counted()
    passed.successes = successes &- earlier.successes
    passed.unjudged = unjudged &- earlier.unjudged
    passed.ignored = ignored &- earlier.ignored
    passed.rejections = rejections &- earlier.rejections
    passed.slow = slow &- earlier.slow
    passed.wouldReject = wouldReject &- earlier.wouldReject
    let numbers = [
      passed.successes, passed.unjudged, passed.ignored, passed.rejections, passed.slow,
      passed.wouldReject,
    ]
    return numbers.allSatisfy { (0..<Self.limit).contains($0) } ? passed : nil
  }

  /// More than any host ever counts; a counter that reaches this is damaged.
  private static let limit: Int64 = 1 << 53

  package var totals: BreakerTotals {
    var totals = BreakerTotals()
    totals.successes = successes + unjudged
    totals.ignored = ignored
    totals.rejections = rejections
    totals.slow = slow
    totals.wouldReject = wouldReject
    return totals
  }
}
