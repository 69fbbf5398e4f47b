import Testing

@testable import bench

struct StatisticsTests {
  @Test(
    arguments: [
      ([3], 3), ([3, 1], 2), ([9, 1, 2], 2), ([4, 1, 9, 2], 3), ([.nan, 5], 5),
    ] as [([Double], Double)])
  func `the median is the middle of the values that are numbers`(
    values: [Double], middle: Double
  ) throws {
    #expect(try #require(Spread(values)).median == middle)
  }

  @Test func `the spread reaches from the least value to the greatest`() {
    #expect(Spread([5, 1, 3])?.least == 1)
    #expect(Spread([5, 1, 3])?.greatest == 5)
    #expect(Spread([.nan]) == nil)
  }

  @Test(
    arguments: [
      (1_234.5, "1235"), (99.96, "100"), (12.34, "12.3"), (9.996, "10.0"), (1.234, "1.23"),
      (0.05, "0.0500"), (0, "0"), (-0.5, "-0.50"), (-0.000_01, "0.0000"), (.nan, "-"),
    ] as [(Double, String)])
  func `numbers are written with about three significant digits`(value: Double, text: String) {
    #expect(Digits.short(value) == text)
  }
}
