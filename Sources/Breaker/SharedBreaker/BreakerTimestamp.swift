internal import BreakerStore

/// A point in time on the wall clock, for display and for JSON.
public struct BreakerTimestamp: Sendable, Hashable, Comparable {
  /// Milliseconds since the beginning of 1970, UTC.
  public var millisecondsSince1970: Int64

  /// Creates a point in time from milliseconds since 1970.
  public init(millisecondsSince1970: Int64) {
    self.millisecondsSince1970 = millisecondsSince1970
  }

  /// Whether the left point in time is earlier.
  public static func < (left: BreakerTimestamp, right: BreakerTimestamp) -> Bool {
    left.millisecondsSince1970 < right.millisecondsSince1970
  }
}

extension StoreClock {
  /// The time on the wall clock.
  public var wallTime: BreakerTimestamp {
    BreakerTimestamp(millisecondsSince1970: wallMilliseconds)
  }
}

extension BreakerTimestamp: CustomStringConvertible {
  /// The time in UTC, in the format of RFC 3339: `2026-11-21T04:44:45.123Z`.
  ///
  /// Times outside the years 1 to 9999 are shown as the nearest time within them.
  public var description: String {
    // A damaged file may hold any number, but RFC 3339 has four digits for the year.
    let limited = min(max(millisecondsSince1970, -62_135_596_800_000), 253_402_300_799_999)
    let days = Self.floor(limited, by: 86_400_000)
    let rest = limited - days * 86_400_000
    let (year, month, day) = Self.date(daysSince1970: days)
    var text: [UInt8] = []
    text.reserveCapacity(24)
    func append(_ number: Int64, digits: Int, then separator: Unicode.Scalar) {
      var divisor = digits == 4 ? 1_000 : digits == 3 ? 100 : 10 as Int64
      while divisor > 0 {
        text.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
        divisor /= 10
      }
      text.append(UInt8(ascii: separator))
    }
    append(year, digits: 4, then: "-")
    append(month, digits: 2, then: "-")
    append(day, digits: 2, then: "T")
    append(rest / 3_600_000, digits: 2, then: ":")
    append(rest / 60_000 % 60, digits: 2, then: ":")
    append(rest / 1_000 % 60, digits: 2, then: ".")
    append(rest % 1_000, digits: 3, then: "Z")
    return String(decoding: text, as: UTF8.self)
  }

  private static func floor(_ value: Int64, by divisor: Int64) -> Int64 {
    let quotient = value / divisor
    return value % divisor < 0 ? quotient - 1 : quotient
  }

  /// The Gregorian date of a day; years are counted from 1 March so that leap days come last.
  private static func date(daysSince1970: Int64) -> (Int64, Int64, Int64) {
    let daysSinceMarch0 = daysSince1970 + 719_468
    let cycle = floor(daysSinceMarch0, by: 146_097)
    let dayOfCycle = daysSinceMarch0 - cycle * 146_097
    let yearOfCycle =
      (dayOfCycle - dayOfCycle / 1_460 + dayOfCycle / 36_524 - dayOfCycle / 146_096) / 365
    let dayOfYear = dayOfCycle - (365 * yearOfCycle + yearOfCycle / 4 - yearOfCycle / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    return (yearOfCycle + cycle * 400 + (month <= 2 ? 1 : 0), month, day)
  }
}

extension BreakerTimestamp: LosslessStringConvertible {
  /// Reads a time as it is printed, `2026-11-21T04:44:45.123Z`; nil for any other text.
  public init?(_ description: String) {
    let bytes = Array(description.utf8)
    guard bytes.count == 24 else { return nil }
    func number(_ range: Range<Int>) -> Int64? {
      var number: Int64 = 0
      for byte in bytes[range] {
        guard (0x30...0x39).contains(byte) else { return nil }
        number = number * 10 + Int64(byte - 0x30)
      }
      return number
    }
    guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10),
      let hour = number(11..<13), let minute = number(14..<16), let second = number(17..<19),
      let milliseconds = number(20..<23), (1...12).contains(month)
    else { return nil }
    // Years are counted from 1 March, so that leap days come last.
    let shifted = month > 2 ? year : year - 1
    let daysOfYears = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400
    let daysOfMonths = (153 * ((month + 9) % 12) + 2) / 5
    let days = daysOfYears + daysOfMonths + day - 1 - 719_468
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    self.init(millisecondsSince1970: seconds * 1_000 + milliseconds)
    // Refuses days and hours that do not exist, and other separators.
    guard self.description == description else { return nil }
  }
}
