internal import BreakerCore
internal import CHost

/// How many successes had been counted when each bucket of a window over time began.
///
/// So one counter serves every window: the successes of a bucket are those between two marks. A
/// mark is one word, the number of its bucket and the count, so that it is always whole.
@safe package struct BucketMarks: @unchecked Sendable {
  private static let countBits: UInt64 = 36
  private static let countMask: UInt64 = (1 << countBits) - 1
  private static let epochMask: UInt64 = (1 << (64 - countBits)) - 1

  private let marks: UnsafeMutablePointer<UInt64>

  init(_ marks: UnsafeMutablePointer<UInt64>) { unsafe self.marks = marks }

  /// The number of a bucket as a mark has it; memory that was never used is no mark.
  private static func tag(_ epoch: Int64) -> UInt64 { UInt64(epoch &+ 1) & epochMask }

  private func mark(of epoch: Int64) -> UnsafeMutablePointer<UInt64> {
    unsafe marks.advanced(by: Int(epoch % Int64(TimeWindow.bucketCount)))
  }

  /// Marks the beginning of a bucket, unless somebody has done so.
  ///
  /// It is called before the first success of the bucket is counted.
  func begin(epoch: Int64, counting successes: UnsafePointer<UInt64>) {
    let mark = unsafe mark(of: epoch)
    let found = unsafe sb_load(mark)
    guard found >> Self.countBits != Self.tag(epoch) else { return }
    let count = unsafe sb_load(successes) & Self.countMask
    // Whoever was first has marked it.
    unsafe sb_replace(mark, found, Self.tag(epoch) << Self.countBits | count)
  }

  /// The successes of each bucket that a window still covers, beyond those taken in already.
  ///
  /// The counter is to be read after this has begun, so that no mark is ahead of it.
  func buckets(
    upTo epoch: Int64, width: Int64, since taken: Int64, count: () -> Int64
  ) -> (buckets: [HealthyCalls.Bucket], count: Int64) {
    let epochs = max(0, epoch - Int64(TimeWindow.bucketCount) + 1)...epoch
    let found = epochs.map { (epoch: $0, mark: unsafe sb_load(mark(of: $0))) }
    let total = count()
    var buckets: [HealthyCalls.Bucket] = []
    var end = total
    for (epoch, mark) in found.reversed()
    where mark >> Self.countBits == Self.tag(epoch) {
      // The low bits of a count that is not far behind the total.
      let behind = (UInt64(bitPattern: total) &- mark) & Self.countMask
      let start = max(taken, min(end, total - Int64(behind)))
      if end > start {
        buckets.append(
          .init(start: Instant(nanoseconds: epoch * width), successes: end - start))
      }
      end = start
    }
    return (buckets.reversed(), total)
  }

  func clear() {
    for index in 0..<TimeWindow.bucketCount { unsafe sb_store(marks.advanced(by: index), 0) }
  }
}
