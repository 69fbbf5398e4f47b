import BreakerCore
public import BreakerStore

/// The time until which an HTTP answer asks to be left alone.
public enum RetryAfter {
  /// The longest wait that is believed, a year: a value that names more names no time.
  public static let longest = Duration.seconds(86_400 * 365)

  /// Reads how long to wait from the headers of an answer.
  ///
  /// It is the first that can be read of:
  ///
  /// - `retry-after-ms`;
  /// - `Retry-After`;
  /// - `x-rate-limit-retry-after-seconds`;
  /// - the longest reset whose own `remaining` is 0, of `x-ratelimit-reset…`, `x-rate-limit-reset…`,
  ///   `anthropic-ratelimit-…-reset`, `ratelimit-reset…`, and the parameters `r` and `t` of `RateLimit`. Answers that
  ///   leave something name resets too, and those are no wait.
  ///
  /// Dates and epochs count from the `Date` of the answer, so that a clock that is wrong here does no harm.
  ///
  /// - Parameters:
  ///   - headers: The names of the headers, in any case, with their values.
  ///   - now: The time by which a date is judged if the answer has no `Date`.
  /// - Returns: How long to wait, at most ``longest``; nil if no time is named.
  public static func wait(
    headers: some Sequence<(key: String, value: String)>,
    now: BreakerTimestamp = StoreClock.system.wallTime
  ) -> Duration? {
    HTTPTimes(headers, now: now).wait
  }

  /// Reads how long to wait from the value of a header.
  ///
  /// ```swift
  /// RetryAfter.wait("120")                              // 120 seconds
  /// RetryAfter.wait("1m2.5s")                           // 62.5 seconds
  /// RetryAfter.wait("Sun, 22 Nov 2026 10:00:00 GMT")    // until then
  /// ```
  ///
  /// It reads seconds with and without decimals, a duration with units, seconds (from 10^9 to 10^11) and milliseconds
  /// (from 10^12 to 10^14) since 1970, a date in one of the three forms of RFC 9110, and one in that of RFC 3339. A
  /// date that has passed is a wait of zero.
  ///
  /// - Parameters:
  ///   - value: The value of the header; nil if the answer has none.
  ///   - now: The time by which a date is judged.
  /// - Returns: How long to wait, at most ``longest``; nil if there is no value or it names no such time.
  public static func wait(
    _ value: String?, now: BreakerTimestamp = StoreClock.system.wallTime
  ) -> Duration? {
    guard let value else { return nil }
    let words = value.split(whereSeparator: { $0 == " " || $0 == "\t" })
    let wait: Duration?
    if words.count == 1 {
      wait =
        HeaderNumber(words[0])?.wait(now: now) ?? durationWithUnits(words[0])
        ?? BreakerTimestamp(internet: words[0])?.wait(now: now)
    } else {
      wait = HTTPDate(words, now: now)?.time.wait(now: now)
    }
    return wait.flatMap { $0 <= longest ? $0 : nil }
  }

  /// A duration such as `1h`, `6m0s` or `250ms`.
  private static func durationWithUnits(_ text: Substring) -> Duration? {
    var rest = text
    var sum = Duration.zero
    repeat {
      let number = rest.prefix(while: { $0 == "." || ("0"..."9").contains($0) })
      rest = rest.dropFirst(number.count)
      let unit = rest.prefix(while: { $0 != "." && !("0"..."9").contains($0) })
      rest = rest.dropFirst(unit.count)
      guard let amount = HeaderNumber(number), let nanoseconds = units[String(unit)] else {
        return nil
      }
      // Of a year's duration, no number has more digits.
      guard amount.whole <= longest.inNanoseconds / nanoseconds else { return nil }
      sum += .nanoseconds(amount.whole * nanoseconds)
      // A billion times a day is too much for 64 bits, and not for a duration.
      sum += .nanoseconds(amount.billionths) * nanoseconds / 1_000_000_000
    } while !rest.isEmpty && sum <= longest
    return sum
  }

  private static let units: [String: Int64] = [
    "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000,
    "m": 60_000_000_000, "h": 3_600_000_000_000, "d": 86_400_000_000_000,
  ]
}

/// A number in a header, such as `12` or `45.837906927`, without a sign.
struct HeaderNumber {
  let whole: Int64
  let billionths: Int64

  init?(_ text: Substring) {
    let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let whole = Self.digits(first) else { return nil }
    var billionths: Int64 = 0
    if parts.count == 2 {
      guard !parts[1].isEmpty, parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
        return nil
      }
      let kept = parts[1].prefix(9)
      billionths = Self.digits(kept + String(repeating: "0", count: 9 - kept.count)) ?? 0
    }
    self.whole = whole
    self.billionths = billionths
  }

  /// The wait that the number means, by its size; nil if it means none.
  func wait(now: BreakerTimestamp) -> Duration? {
    let longest = RetryAfter.longest.inNanoseconds / 1_000_000_000
    switch whole {
    case 0...longest:
      return .seconds(whole) + .nanoseconds(billionths)
    case 1_000_000_000...100_000_000_000:
      return BreakerTimestamp(millisecondsSince1970: whole * 1_000 + billionths / 1_000_000).wait(
        now: now)
    case 1_000_000_000_000...100_000_000_000_000:
      return BreakerTimestamp(millisecondsSince1970: whole).wait(now: now)
    default:
      return nil
    }
  }

  private static func digits(_ text: some StringProtocol) -> Int64? {
    guard (1...15).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) })
    else { return nil }
    return Int64(text)
  }
}

extension BreakerTimestamp {
  /// How long it is until then; zero if it has passed.
  fileprivate func wait(now: BreakerTimestamp) -> Duration {
    let milliseconds = millisecondsSince1970.subtractingSaturating(now.millisecondsSince1970)
    return max(.zero, .milliseconds(milliseconds))
  }

  /// Reads a date such as `2026-11-22T10:00:00Z` or `2026-11-22T11:00:00.25+01:00`, the form of RFC 3339.
  fileprivate init?(internet text: Substring) {
    let bytes = Array(text.utf8)
    guard bytes.count >= 20, let second = String(validating: bytes[..<19], as: UTF8.self) else {
      return nil
    }
    var rest = bytes[19...]
    var fraction = "000"
    if rest.first == UInt8(ascii: ".") {
      let digits = rest.dropFirst().prefix(while: { (0x30...0x39).contains($0) })
      guard !digits.isEmpty else { return nil }
      rest = rest[digits.endIndex...]
      fraction = String(decoding: digits.prefix(3), as: UTF8.self)
      fraction += String(repeating: "0", count: 3 - fraction.utf8.count)
    }
    let zone = String(decoding: rest, as: UTF8.self).uppercased()
    var minutes: Int64 = 0
    if zone != "Z" {
      let parts = zone.dropFirst().split(separator: ":", omittingEmptySubsequences: false)
      guard let sign = zone.first, sign == "+" || sign == "-", parts.count == 2,
        parts.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }
        ),
        let hour = Int64(parts[0]), let minute = Int64(parts[1]), hour < 24, minute < 60
      else { return nil }
      minutes = (hour * 60 + minute) * (sign == "-" ? -1 : 1)
    }
    guard let time = BreakerTimestamp("\(second.uppercased()).\(fraction)Z") else { return nil }
    self.init(millisecondsSince1970: time.millisecondsSince1970 - minutes * 60_000)
  }
}

/// A date as HTTP writes it, in one of the three forms of RFC 9110, section 5.6.7.
struct HTTPDate {
  let time: BreakerTimestamp

  init?(_ words: [Substring], now: BreakerTimestamp) {
    let parts: (day: Substring, month: Substring, year: Substring, time: Substring)
    switch words.count {
    case 6 where words[0].hasSuffix(",") && words[5] == "GMT":
      // Sun, 06 Nov 1994 08:49:37 GMT
      parts = (words[1], words[2], words[3], words[4])
    case 4 where words[0].hasSuffix(",") && words[3] == "GMT":
      // Sunday, 06-Nov-94 08:49:37 GMT
      let date = words[1].split(separator: "-", omittingEmptySubsequences: false)
      guard date.count == 3 else { return nil }
      parts = (date[0], date[1], date[2], words[2])
    case 5:
      // Sun Nov  6 08:49:37 1994
      parts = (words[2], words[1], words[4], words[3])
    default:
      return nil
    }
    let clock = parts.time.split(separator: ":", omittingEmptySubsequences: false)
    // Only the form with dashes has years of two digits.
    guard words.count == 4 || parts.year.utf8.count == 4,
      let month = Self.months.firstIndex(where: { $0 == parts.month }), clock.count == 3,
      let year = Self.year(parts.year, now: now), let day = Self.number(parts.day, digits: 1...2),
      let hour = Self.number(clock[0], digits: 2...2),
      let minute = Self.number(clock[1], digits: 2...2),
      let second = Self.number(clock[2], digits: 2...2)
    else { return nil }
    func padded(_ number: Int, _ digits: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
    // A leap second is the next minute's first one.
    let text =
      "\(padded(year, 4))-\(padded(month + 1, 2))-\(padded(day, 2))T\(padded(hour, 2))"
      + ":\(padded(minute, 2)):\(padded(min(second, 59), 2)).000Z"
    guard let time = BreakerTimestamp(text), second <= 60 else { return nil }
    self.time = BreakerTimestamp(
      millisecondsSince1970: time.millisecondsSince1970 + (second == 60 ? 1_000 : 0))
  }

  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// The year; two digits that would be more than 50 years ahead are of the century before.
  private static func year(_ text: Substring, now: BreakerTimestamp) -> Int? {
    if text.utf8.count == 4 { return number(text, digits: 4...4) }
    guard let short = number(text, digits: 2...2), let current = Int(now.description.prefix(4))
    else { return nil }
    let year = current - current % 100 + short
    return year > current + 50 ? year - 100 : year
  }

  private static func number(_ text: Substring, digits: ClosedRange<Int>) -> Int? {
    guard digits.contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) })
    else { return nil }
    return Int(text)
  }
}
