@testable import BreakerCore
import Testing

@Suite struct ValueTextTests {
  static let units = [
    ("ns", Duration.nanoseconds(1)), ("us", .microseconds(1)), ("ms", .milliseconds(1)),
    ("s", .seconds(1)), ("m", .seconds(60)), ("h", .seconds(3_600)), ("d", .seconds(86_400)),
  ]

  @Test(arguments: units, [0, 1, 7, 999])
  func `a duration is read from a whole number and a unit`(
    unit: (name: String, one: Duration), count: Int
  ) {
    #expect(DurationText.parse("\(count)\(unit.name)") == unit.one * count)
    #expect(DurationText.parse("00\(count)\(unit.name)") == unit.one * count)
    #expect(DurationText.parse(DurationText.format(unit.one * count)) == unit.one * count)
  }

  @Test(arguments: [
    "", "s", "5", "5x", "5S", "-5s", "+5s", " 5s", "5s ", "5 s", "1.5s", "1e3s", "5s5", "5ss",
    "5min", "٥s", "5s\u{301}", "5\u{0}s", "9223372036854775808ns", "106752d",
    "99999999999999999999s", "30m1h", "1h1h", "1h  30m", "1h 30m ", " 1h 30m", "1h30", "1h,30m",
    "h30m",
    "106751d 99h",
  ])
  func `text that is malformed or too large is not read as a duration`(text: String) {
    #expect(DurationText.parse(text) == nil)
  }

  @Test(
    arguments: [
      ("1h30m", .seconds(5_400)), ("1h 30m", .seconds(5_400)), ("6h 18m", .seconds(22_680)),
      ("2m5s", .seconds(125)), ("1d 2h3m 4s", .seconds(93_784)), ("1s500ms", .milliseconds(1_500)),
    ] as [(String, Duration)])
  func `a duration of several units is read, as times are shown`(text: String, duration: Duration) {
    #expect(DurationText.parse(text) == duration)
  }

  @Test(arguments: [1, 59, 61, 3_599, 3_661, 86_399, 90_000, 1_000_000])
  func `a duration as people see it is read as the same one`(seconds: Int) {
    let spoken = DurationText.spoken(.seconds(seconds))
    #expect(DurationText.parse(spoken).map { DurationText.spoken($0) } == spoken)
  }

  @Test func `the longest duration that fits is read`() {
    #expect(DurationText.parse("9223372036854775807ns") == .nanoseconds(Int64.max))
    #expect(DurationText.parse("106751d") == .seconds(106_751 * 86_400))
  }

  @Test(arguments: [
    (Duration.zero, "0s"), (.seconds(30), "30s"), (.seconds(60), "1m"), (.seconds(90), "90s"),
    (.seconds(7_200), "2h"), (.seconds(86_400), "1d"), (.milliseconds(1_500), "1500ms"),
    (.microseconds(10), "10us"), (.nanoseconds(1_001), "1001ns"), (.seconds(-30), "-30s"),
    (.seconds(Int64.max), "9223372036854775807ns"),
    (.seconds(Int64.min), "-9223372036854775808ns"),
  ])
  func `a duration is written in the largest unit that is exact`(value: Duration, text: String) {
    #expect(DurationText.format(value) == text)
  }

  @Test(arguments: [
    (Duration.zero, "0s"), (.seconds(-1), "0s"), (.nanoseconds(1), "1ms"),
    (.milliseconds(999), "999ms"), (.microseconds(999_001), "1s"), (.milliseconds(1_001), "2s"),
    (.seconds(59), "59s"), (.milliseconds(59_001), "1m"), (.seconds(61), "1m 1s"),
    (.milliseconds(3_599_001), "1h"), (.seconds(3_600), "1h"), (.seconds(3_601), "1h 1m"),
    (.seconds(86_340), "23h 59m"), (.seconds(86_399), "1d"), (.seconds(86_400), "1d"),
    (.seconds(86_401), "1d 1h"), (.seconds(90_000), "1d 1h"), (.seconds(172_799), "2d"),
    (.seconds(Int64.max), "106751991167300d 16h"),
  ])
  func `a duration for people has at most two units and is rounded up`(
    value: Duration, text: String
  ) {
    #expect(DurationText.spoken(value) == text)
  }

  @Test func `a duration that is not set is written as none`() {
    #expect(DurationText.format(Duration?.none) == "none")
    #expect(DurationText.format(Duration?.some(.seconds(1))) == "1s")
  }

  @Test(arguments: [
    ("0%", 0), ("50%", 500_000), ("100%", 1_000_000), ("12.5%", 125_000), ("7%", 70_000),
    ("0.0001%", 1), ("99.9999%", 999_999), ("33.3333%", 333_333), ("150%", 1_500_000),
    ("0.00005%", 1), ("0.00004%", 0),
  ])
  func `a rate is read to the millionth`(text: String, parts: Int) {
    #expect(BreakerPolicy.Rate(text)?.partsPerMillion == Int64(parts))
  }

  @Test(arguments: [
    "", "%", "50", "50 %", " 50%", "50%%", "-5%", "+5%", "1e1%", "nan%", "inf%", "0x1%", "1.2.3%",
    ".%", "50\u{600}%", "50%\u{301}", "000000000000000000001%",
  ])
  func `malformed or overlong text is not read as a rate`(text: String) {
    #expect(BreakerPolicy.Rate(text) == nil)
  }

  @Test(
    arguments: [
      (Duration.zero, 0), (.nanoseconds(1), 1), (.milliseconds(1), 1), (.microseconds(1_001), 2),
      (.milliseconds(-1), -1), (.microseconds(-1_001), -1), (.seconds(Int64.max), Int64.max),
      (.seconds(Int64.min), Int64.min),
    ] as [(Duration, Int64)])
  func `a duration in milliseconds is rounded up and never overflows`(
    duration: Duration, milliseconds: Int64
  ) {
    #expect(DurationText.milliseconds(duration) == milliseconds)
  }

  @Test func `every rate reads back as it was written`() {
    for parts in [0, 1, 10, 99, 100, 9_999, 10_000, 10_001, 70_000, 333_333, 999_999, 1_000_000]
      + stride(from: 1, to: 1_000_000, by: 1_237)
    {
      let rate = BreakerPolicy.Rate(partsPerMillion: Int64(parts))
      #expect(BreakerPolicy.Rate(rate.description) == rate)
    }
  }

  @Test(arguments: [
    (500_000, "50%"), (125_000, "12.5%"), (1, "0.0001%"), (0, "0%"), (-1, "-0.0001%"),
    (-20_000, "-2%"), (-25_000, "-2.5%"),
  ])
  func `a rate is written without needless decimals`(parts: Int, text: String) {
    #expect(BreakerPolicy.Rate(partsPerMillion: Int64(parts)).description == text)
  }

  @Test(arguments: [0.07, 0.14, 0.28, 0.29, 0.55, 0.57, 0.58, 1.0])
  func `a fraction is rounded to the millionth`(fraction: Double) {
    #expect(BreakerPolicy.Rate(fraction).partsPerMillion == Int64((fraction * 1_000_000).rounded()))
    #expect(BreakerPolicy.Rate.percent(fraction * 100) == BreakerPolicy.Rate(fraction))
  }

  @Test(arguments: [-0.000_001, -5.0, Double.nan, Double.infinity, -Double.infinity, 1e30])
  func `an impossible fraction becomes a rate that no policy accepts`(fraction: Double) {
    #expect(BreakerPolicy.Rate(fraction).partsPerMillion == -1)
  }

  @Test(arguments: ["99999999999.9999%", "99999999999.99994%", "99999999999.99996%"])
  func `the largest rates read back as they were written, or are invalid`(text: String) throws {
    let rate = try #require(BreakerPolicy.Rate(text))
    #expect(rate.partsPerMillion == -1 || BreakerPolicy.Rate(rate.description) == rate)
  }

  @Test func `rates are ordered by size and written as fractions`() {
    let half: BreakerPolicy.Rate = 0.5
    #expect(half < 0.500_001)
    #expect(!(half < half))
  }

  @Test(arguments: [
    ("1", 1), ("1.5", 1.5), ("0", 0), ("10.25", 10.25), ("007", 7), ("1.250000000000000000", 1.25),
  ])
  func `a factor is read from a plain decimal number`(text: String, factor: Double) {
    #expect(FactorText.parse(text) == factor)
  }

  @Test(arguments: [
    "", ".", "1,5", "-1", "+1", "1e3", "nan", "inf", "0x10", " 1", "1..2", "1x",
    "1.2500000000000000000",
  ])
  func `malformed or overlong text is not read as a factor`(text: String) {
    #expect(FactorText.parse(text) == nil)
  }

  @Test(arguments: [(1.0, "1"), (1.5, "1.5"), (2.0, "2"), (1.1, "1.1"), (999.999, "999.999")])
  func `a factor reads back as it was written`(factor: Double, text: String) {
    #expect(FactorText.format(factor) == text)
    #expect(FactorText.parse(text) == factor)
  }

  @Test func `a factor next to a round number still reads back exactly`() {
    for factor in [(1.0).nextUp, (1_000.0).nextDown, (1.1).nextUp, (123.456).nextDown] {
      #expect(FactorText.parse(FactorText.format(factor)) == factor)
    }
  }

  @Test(arguments: [("0", 0), ("5", 5), ("0012", 12), ("9223372036854775807", Int.max)])
  func `a count is read from digits`(text: String, count: Int) {
    #expect(CountText.parse(text) == count)
  }

  @Test(arguments: ["", "-1", "+1", "1.0", " 1", "1 ", "x", "٣", "9223372036854775808"])
  func `text that is malformed or too large is not read as a count`(text: String) {
    #expect(CountText.parse(text) == nil)
  }
}

@Suite struct CountedNounTests {
  @Test func `only a count of one has a noun in the singular`() {
    #expect(CountedNoun.text(0, "call") == "0 calls")
    #expect(CountedNoun.text(1, "call") == "1 call")
    #expect(CountedNoun.text(Int64(2), "consecutive failure") == "2 consecutive failures")
  }

  @Test func `a noun that does not only take an s brings its own plural`() {
    #expect(CountedNoun.text(1, "policy", plural: "policies") == "1 policy")
    #expect(CountedNoun.text(3, "policy", plural: "policies") == "3 policies")
  }
}
