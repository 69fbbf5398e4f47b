import BreakerCore
import Testing

@testable import BreakerStore

/// Marks of how many successes had been counted when each bucket of a window began.
@Suite struct BucketMarksTests {
  /// The memory of a breaker's counters and marks, and a clock of its own.
  @safe private final class Page {
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: 64)
    let counters: Counters
    var now = Instant(nanoseconds: 1_000_000)

    init() {
      unsafe words.initialize(repeating: 0, count: 64)
      counters = unsafe Counters(
        at: words, marks: BucketMarks(words + 16), attempts: AttemptTally(words + 32))
    }

    deinit { unsafe words.deallocate() }

    var marks: BucketMarks { unsafe BucketMarks(words + 16) }

    func succeed(_ count: Int64) {
      var counted = Counted()
      counted.successes = count
      counters.add(counted)
    }

    /// The successes of each bucket, by the number of the bucket.
    func buckets(latest: Int64? = nil, total: Int64? = nil) -> [Int64: Int64] {
      let total = total ?? counters.read().successes
      let found = marks.buckets(at: now, width: width, total: total, latest: latest ?? total)
      return Dictionary(
        uniqueKeysWithValues: found.map { ($0.start.nanoseconds / width, $0.successes) })
    }
  }

  private static let width: Int64 = 100
  private let page = Page()

  private func begin(width: Int64 = width) {
    _ = page.counters.beginBucket(ofWindow: width * 10) { page.now }
  }

  @Test func `bucket marks give the successes of each bucket that the window covers`() {
    for epoch in Int64(10_000)..<10_030 {
      page.now = Instant(nanoseconds: epoch * Self.width + 7)
      begin()
      page.succeed(epoch - 9_999)
    }
    let expected = Dictionary(
      uniqueKeysWithValues: (Int64(10_020)...10_029).map { ($0, $0 - 9_999) })
    #expect(page.buckets() == expected)
    #expect(page.buckets(latest: 35) == [10_029: 30, 10_028: 5])
    #expect(page.buckets(latest: 0) == [:])
  }

  @Test func `the process that begins a bucket learns how much longer it lasts`() {
    page.now = Instant(nanoseconds: 1_234)
    #expect(page.counters.beginBucket(ofWindow: 1_000) { page.now } == 66)
    #expect(page.counters.beginBucket(ofWindow: 1_000) { page.now } == 66)
  }

  @Test func `bucket marks made after the counter was read are not used with that reading`() {
    begin()
    page.succeed(3)
    let total = page.counters.read().successes
    page.now = Instant(nanoseconds: page.now.nanoseconds + Self.width)
    page.succeed(2)
    begin()
    page.succeed(4)
    #expect(page.buckets(total: total) == [10_000: 3])
    #expect(page.buckets() == [10_000: 5, 10_001: 4])
  }

  @Test func `the mark of a bucket that has gone by does not replace that of a later one`() {
    var readings = 0
    _ = page.counters.beginBucket(ofWindow: Self.width * 10) {
      readings += 1
      // Another process marks buckets while this one is stopped after its first look.
      if readings == 2 {
        page.succeed(5)
        page.now = Instant(nanoseconds: page.now.nanoseconds + 16 * Self.width)
        begin()
        page.succeed(2)
      }
      return readings == 1 ? Instant(nanoseconds: 1_000_000) : page.now
    }
    page.succeed(1)
    #expect(page.buckets() == [10_016: 3])
  }

  @Test func `bucket marks of windows with a different width are not used`() {
    begin(width: 100)
    page.succeed(5)
    begin(width: 99)
    page.succeed(1)
    begin(width: 100)
    #expect(page.buckets() == [:] || page.buckets() == [10_000: 6])
    page.marks.clear()
    begin(width: 100)
    page.succeed(2)
    #expect(page.buckets() == [10_000: 2])
    #expect(
      page.marks.buckets(at: page.now, width: 99, total: 8, latest: 8).isEmpty)
  }

  @Test func `bucket marks can be read by a clock that is some buckets behind`() {
    for epoch in Int64(10_000)...10_014 {
      page.now = Instant(nanoseconds: epoch * Self.width)
      begin()
      page.succeed(1)
    }
    page.now = Instant(nanoseconds: 10_009 * Self.width)
    // Later successes belong to the latest bucket that the clock knows.
    #expect(page.buckets().values.reduce(0, +) == 15)
    #expect(page.buckets()[10_000] == 1)
  }

  @Test(arguments: [Int64.min, .min + 1, .max, -1, 1 << 40, 1 << 39])
  func `bucket marks never give more than the latest successes, whatever the counter says`(
    total: Int64
  ) {
    begin()
    page.succeed(1 << 20)
    let sum = page.buckets(latest: 10, total: total).values.reduce(0, +)
    #expect(0...10 ~= sum)
  }

  @Test func `bucket marks are ahead of a counter only if it was damaged`() {
    func isAhead(_ successes: Int64? = nil) -> Bool {
      page.marks.isAnyAhead(
        of: { successes ?? page.counters.successes }, at: page.now, width: Self.width)
    }
    #expect(!isAhead(-1))
    page.succeed(200)
    begin()
    #expect(!isAhead())
    page.succeed(5)
    #expect(!isAhead())
    for damage: Int64 in [199, 0, (1 << 40) + 100] { #expect(isAhead(damage)) }
    // A bucket that the window no longer covers is not checked.
    page.now = page.now.advanced(by: 10 * Self.width)
    #expect(!isAhead(199))
  }

  @Test func `a count that no longer fits the bits of a mark is still read correctly`() {
    page.succeed((1 << 40) - 3)
    begin()
    page.succeed(8)
    #expect(page.buckets(latest: 100) == [10_000: 8])
  }
}
