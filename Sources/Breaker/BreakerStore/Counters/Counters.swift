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

  /// The attempts of the last seconds.
  package let attempts: AttemptTally

  package init(
    at address: UnsafeMutablePointer<UInt64>, marks: BucketMarks?, attempts: AttemptTally
  ) {
    unsafe self.address = address
    self.marks = marks
    self.attempts = attempts
  }

  /// Begins the current bucket of a time window; call this before counting its first success.
  ///
  /// - Returns: How much longer the bucket lasts; 0 if there are no buckets here.
  package func beginBucket(ofWindow length: Int64, at now: () -> Instant) -> Int64 {
    unsafe marks?.begin(
      width: TimeWindow.width(ofLength: length), at: now, counting: pointer(SB_COUNTER_SUCCESSES))
      ?? 0
  }

  /// Begins the current second of the attempts; call this before counting its first success.
  ///
  /// - Returns: How much longer the second lasts.
  package func beginSecond(at now: () -> Instant) -> Int64 {
    unsafe attempts.beginSecond(at: now, counting: pointer(SB_COUNTER_SUCCESSES))
  }

  /// Ties the counters to one row, and shows whether they have been lost since; 0 for none.
  var key: Int64 {
    get { unsafe Int64(bitPattern: sb_load(pointer(SB_COUNTER_KEY))) }
    nonmutating set { unsafe sb_set(pointer(SB_COUNTER_KEY), UInt64(bitPattern: newValue)) }
  }

  private func pointer(_ word: Int) -> UnsafeMutablePointer<UInt64> {
    unsafe address.advanced(by: word)
  }

  package func add(_ counts: Counted) { unsafe Self.add(counts, at: address) }

  /// Adds to counters of which only the address is known.
  package static func add(_ counts: Counted, at address: UnsafeMutablePointer<UInt64>) {
    func add(_ count: Int64, to word: Int) {
      if count != 0 { unsafe sb_add(address.advanced(by: word), UInt64(bitPattern: count)) }
    }
    add(counts.successes, to: SB_COUNTER_SUCCESSES)
    add(counts.unjudged, to: SB_COUNTER_UNJUDGED)
    add(counts.ignored, to: SB_COUNTER_IGNORED)
    add(counts.rejections, to: SB_COUNTER_REJECTIONS)
    add(counts.slow, to: SB_COUNTER_SLOW)
    add(counts.wouldReject, to: SB_COUNTER_WOULD_REJECT)
    add(counts.busy, to: SB_COUNTER_BUSY)
    add(counts.held, to: SB_COUNTER_HELD)
    add(counts.ramping, to: SB_COUNTER_RAMPING)
    add(counts.overRate, to: SB_COUNTER_OVER_RATE)
    add(counts.retries, to: SB_COUNTER_RETRIES)
    add(counts.overBudget, to: SB_COUNTER_OVER_BUDGET)
  }

  /// The successes that have been counted so far.
  package var successes: Int64 { unsafe Int64(bitPattern: sb_load(pointer(SB_COUNTER_SUCCESSES))) }

  /// The counts so far.
  package func read() -> Counted { counted { unsafe sb_load(pointer($0)) } }

  /// Takes the counts since the last call; the caller must keep them.
  package func take() -> Counted { counted { unsafe sb_exchange(pointer($0), 0) } }

  private func counted(_ value: (Int) -> UInt64) -> Counted {
    var counted = Counted()
    counted.successes = Int64(bitPattern: value(SB_COUNTER_SUCCESSES))
    counted.unjudged = Int64(bitPattern: value(SB_COUNTER_UNJUDGED))
    counted.ignored = Int64(bitPattern: value(SB_COUNTER_IGNORED))
    counted.rejections = Int64(bitPattern: value(SB_COUNTER_REJECTIONS))
    counted.slow = Int64(bitPattern: value(SB_COUNTER_SLOW))
    counted.wouldReject = Int64(bitPattern: value(SB_COUNTER_WOULD_REJECT))
    counted.busy = Int64(bitPattern: value(SB_COUNTER_BUSY))
    counted.held = Int64(bitPattern: value(SB_COUNTER_HELD))
    counted.ramping = Int64(bitPattern: value(SB_COUNTER_RAMPING))
    counted.overRate = Int64(bitPattern: value(SB_COUNTER_OVER_RATE))
    counted.retries = Int64(bitPattern: value(SB_COUNTER_RETRIES))
    counted.overBudget = Int64(bitPattern: value(SB_COUNTER_OVER_BUDGET))
    return counted
  }
}

/// Counters in memory private to this process, for breakers that have none in the counter page.
extension Counters {
  package static func allocate() -> Counters {
    let count = Int(SB_COUNTER_WORDS) + AttemptTally.wordCount
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: count)
    unsafe words.initialize(repeating: 0, count: count)
    return unsafe Counters(allocatedAt: words)
  }

  /// The counters whose memory was allocated at an address.
  package init(allocatedAt address: UnsafeMutablePointer<UInt64>) {
    unsafe self.init(
      at: address, marks: nil, attempts: AttemptTally(address + Int(SB_COUNTER_WORDS)))
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

  /// Calls for which a limit left no room.
  package var busy: Int64 = 0

  /// Calls that a hold turned away.
  package var held: Int64 = 0

  /// Calls that a ramp turned away.
  package var ramping: Int64 = 0

  /// Calls that a rate turned away.
  package var overRate: Int64 = 0

  /// Retries that were sent under a budget.
  package var retries: Int64 = 0

  /// Retries that a budget did not let through.
  package var overBudget: Int64 = 0

  package init() {}

  package var isZero: Bool { self == Counted() }

  /// The counts between two readings; nil if the difference is impossible.
  func since(_ earlier: Counted) -> Counted? {
    var passed = Counted()
    passed.successes = successes &- earlier.successes
    passed.unjudged = unjudged &- earlier.unjudged
    passed.ignored = ignored &- earlier.ignored
    passed.rejections = rejections &- earlier.rejections
    passed.slow = slow &- earlier.slow
    passed.wouldReject = wouldReject &- earlier.wouldReject
    passed.busy = busy &- earlier.busy
    passed.held = held &- earlier.held
    passed.ramping = ramping &- earlier.ramping
    passed.overRate = overRate &- earlier.overRate
    passed.retries = retries &- earlier.retries
    passed.overBudget = overBudget &- earlier.overBudget
    let numbers = [
      passed.successes, passed.unjudged, passed.ignored, passed.rejections, passed.slow,
      passed.wouldReject, passed.busy, passed.held, passed.ramping,
      passed.overRate, passed.retries, passed.overBudget,
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
    totals.busy = busy
    totals.held = held
    totals.ramping = ramping
    totals.overRate = overRate
    totals.retries = retries
    totals.overBudget = overBudget
    return totals
  }
}

/// How many successes had been counted when each bucket of a time window began.
///
/// One counter therefore serves every window: the successes of a bucket are those between two
/// marks. A mark is one word, a tag of its bucket and the count, so it is never half written.
/// Unchecked because all access is atomic.
@safe package struct BucketMarks: @unchecked Sendable {
  /// More than a window has buckets, so a reader whose clock reading is old still finds the oldest.
  static let slots: Int64 = 16

  private static let tagBits: UInt64 = 24
  private static let countBits = 64 - tagBits
  private static let countMask: UInt64 = (1 << countBits) - 1

  private let marks: UnsafeMutablePointer<UInt64>

  init(_ marks: UnsafeMutablePointer<UInt64>) { unsafe self.marks = marks }

  /// Distinguishes the marks of a bucket from those of other buckets, and of other bucket widths.
  private static func tag(_ epoch: Int64, _ width: Int64) -> UInt64 {
    let mixed = UInt64(bitPattern: width) &* 0x9E37_79B9_7F4A_7C15
    return (UInt64(bitPattern: epoch) &+ (mixed >> countBits)) << countBits
  }

  private func mark(of epoch: Int64) -> UnsafeMutablePointer<UInt64> {
    unsafe marks.advanced(by: Int(epoch % Self.slots))
  }

  /// Marks the beginning of the current bucket, unless another thread or process has done so.
  ///
  /// Call this before counting the first success of the bucket (rule of order 18).
  ///
  /// - Returns: How much longer the bucket lasts.
  func begin(
    width: Int64, at now: () -> Instant, counting successes: UnsafePointer<UInt64>
  ) -> Int64 {
    var instant = now()
    while true {
      let (epoch, passed) = max(0, instant.nanoseconds).quotientAndRemainder(dividingBy: width)
      let mark = unsafe mark(of: epoch)
      let found = unsafe sb_load(mark)
      let tag = Self.tag(epoch, width)
      guard found & ~Self.countMask != tag else { return width - passed }
      let count = unsafe sb_load(successes) & Self.countMask
      // Read the clock again now that the mark has been found. A thread that stalled after reading
      // the clock would replace a later bucket's mark with that of a bucket that is long over.
      instant = now()
      guard max(0, instant.nanoseconds) / width == epoch else { continue }
      // If the mark has changed by now, another thread or process was first to mark the bucket.
      unsafe sb_replace(mark, found, tag | count)
      return width - passed
    }
  }

  /// Computes which buckets the latest successes belong to.
  ///
  /// - Parameters:
  ///   - instant: The end of the window.
  ///   - width: How long a bucket is.
  ///   - total: The counter, read before this call, so the bucket of every success in it has its
  ///     mark.
  ///   - latest: How many of the total to assign to buckets.
  /// - Returns: The buckets that contain any of them, oldest first.
  func buckets(
    at instant: Instant, width: Int64, total: Int64, latest: Int64
  ) -> [HealthyCalls.Bucket] {
    let newest = max(0, instant.nanoseconds) / width
    let oldest = max(0, newest - Int64(TimeWindow.bucketCount) + 1)
    var buckets: [HealthyCalls.Bucket] = []
    var left = latest
    var younger: Int64 = 0
    for epoch in (oldest...newest).reversed() where left > 0 {
      let mark = unsafe sb_load(mark(of: epoch))
      // A place that was never marked would seem to have the mark of a bucket whose tag is 0.
      guard mark != 0, mark & ~Self.countMask == Self.tag(epoch, width) else { continue }
      // Only the low bits are known, and a mark made since `total` was read may be ahead of it.
      let since = ((total &- Int64(bitPattern: mark)) << Self.tagBits) >> Self.tagBits
      let successes = min(left, max(0, since - younger))
      if successes > 0 {
        buckets.append(.init(start: Instant(nanoseconds: epoch * width), successes: successes))
      }
      left -= successes
      younger += successes
    }
    return buckets.reversed()
  }

  /// Whether a mark is ahead of the counter, which happens only if one of them is damaged.
  func isAnyAhead(of successes: () -> Int64, at instant: Instant, width: Int64) -> Bool {
    let newest = max(0, instant.nanoseconds) / width
    let oldest = max(0, newest - Int64(TimeWindow.bucketCount) + 1)
    return (oldest...newest).contains { epoch in
      let mark = unsafe sb_load(mark(of: epoch))
      guard mark & ~Self.countMask == Self.tag(epoch, width) else { return false }
      // Read after the mark, which was made from an earlier value.
      return ((successes() &- Int64(bitPattern: mark)) << Self.tagBits) >> Self.tagBits < 0
    }
  }

  func clear() {
    for index in 0..<Int(Self.slots) { unsafe sb_set(marks.advanced(by: index), 0) }
  }
}
