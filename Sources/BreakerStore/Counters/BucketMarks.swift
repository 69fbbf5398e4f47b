internal import BreakerCore
internal import CHost

/// How many successes had been counted when each bucket of a time window began.
///
/// One counter therefore serves every window: the successes of a bucket are those between two
/// marks. A mark is one word, a tag of its bucket and the count, so it is never half written.
/// Unchecked because all access is atomic.
@safe package struct BucketMarks: @unchecked Sendable {
  /// More than a window has buckets, so a reader whose clock reading is old still finds the oldest.
  private static let slots: Int64 = 16

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
      guard mark & ~Self.countMask == Self.tag(epoch, width) else { continue }
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
