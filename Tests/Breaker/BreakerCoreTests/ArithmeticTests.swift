import Testing

@testable import BreakerCore

@Suite struct ArithmeticTests {
  @Test(arguments: [
    (1, 2, 3), (Int64.max, 1, .max), (.min, -1, .min), (.max, .min, -1), (.max, 0, .max),
  ])
  func `a sum saturates at the ends of its range`(left: Int64, right: Int64, sum: Int64) {
    #expect(left.addingSaturating(right) == sum)
    #expect(right.addingSaturating(left) == sum)
  }

  @Test(arguments: [
    (3, 2, 1), (Int64.min, 1, .min), (.max, -1, .max), (0, .min, .max), (.min, .min, 0),
  ])
  func `a difference saturates at the ends of its range`(
    left: Int64, right: Int64, difference: Int64
  ) {
    #expect(left.subtractingSaturating(right) == difference)
  }

  @Test(arguments: [
    (3, -2, -6), (Int64.max, 2, .max), (.max, -2, .min), (.min, 2, .min), (.min, -1, .max),
    (.min, 0, 0),
  ])
  func `a product saturates at the ends of its range`(left: Int64, right: Int64, product: Int64) {
    #expect(left.multipliedSaturating(by: right) == product)
    #expect(right.multipliedSaturating(by: left) == product)
  }

  @Test(arguments: [
    (Duration.seconds(1), 1_000_000_000), (.nanoseconds(-1), -1), (.seconds(-1.5), -1_500_000_000),
    (.seconds(Int64.max), Int.max), (.seconds(Int64.min), Int.min),
    (Duration(secondsComponent: 0, attosecondsComponent: 999_999_999), 0),
  ])
  func `a duration is clamped to the nanoseconds that 64 bits can hold`(
    duration: Duration, nanoseconds: Int
  ) {
    #expect(duration.inNanoseconds == Int64(nanoseconds))
  }

  @Test func `instants are ordered and never pass the end of their range`() {
    let now = Instant(nanoseconds: 5)
    #expect(now < now.advanced(by: 1))
    #expect(!(now < now))
    #expect(now.advanced(by: .max).nanoseconds == .max)
    #expect(now.since(now.advanced(by: 3)) == -3)
  }

  @Test func `totals add up, each kind separately, and saturate`() {
    let kinds: [WritableKeyPath<BreakerTotals, Int64>] = [
      \.successes, \.failures, \.ignored, \.rejections, \.slow, \.wouldReject, \.busy, \.lostCalls,
    ]
    #expect(BreakerTotals().isZero)
    for kind in kinds {
      var totals = BreakerTotals()
      totals[keyPath: kind] = 2
      #expect(!totals.isZero)
      totals += totals
      #expect(kinds.map { totals[keyPath: $0] } == kinds.map { $0 == kind ? 4 : 0 })
      totals[keyPath: kind] = .max
      totals += totals
      #expect(totals[keyPath: kind] == .max)
    }
  }

  @Test(arguments: [(0, 0), (1, 1), (14, 1), (15, 2), (100, 7), (101, 8)])
  func `the smallest part that reaches a rate reaches it, and one less does not`(
    whole: Int64, part: Int64
  ) {
    let rate: BreakerPolicy.Rate = 0.07
    #expect(rate.smallestPart(of: whole) == part)
    #expect(rate.isReached(by: part, of: whole))
    #expect(!rate.isReached(by: part - 1, of: whole))
  }
}
