import Glibc
import SharedBreaker

/// An instant on the command line: a time of day, or an instant as RFC 3339 writes it.
enum TimeText {
  /// The instant; nil if the text is neither.
  ///
  /// A time of day is the next one of the local clock.
  static func instant(_ text: String, now: BreakerTimestamp) -> BreakerTimestamp? {
    guard let clock = timeOfDay(text) else { return timestamp(text) }
    return (0...1).flatMap { local(clock, daysLater: $0, than: now) }.first { $0 > now }
  }

  /// The latest instant that a text means: one that was so long ago, or that a clock last showed; nil if it is none.
  static func past(_ text: String, now: BreakerTimestamp) -> BreakerTimestamp? {
    if let age = DurationText.parse(text) { return now.earlier(by: age) }
    if text == "today" { return local((0, 0, 0), daysLater: 0, than: now).first }
    if text == "yesterday" { return local((0, 0, 0), daysLater: -1, than: now).first }
    guard let clock = timeOfDay(text) else { return timestamp(text) }
    return (-1...0).flatMap { local(clock, daysLater: $0, than: now) }.last { $0 <= now }
  }

  /// When the local clock shows a time, on the day of an instant or some days later, in order.
  ///
  /// It does so twice when it is set back at the end of summer time. A time that it skips at the beginning is the one
  /// that would be so long after midnight without summer time.
  private static func local(
    _ clock: (hour: Int32, minute: Int32, second: Int32), daysLater days: Int32,
    than now: BreakerTimestamp
  ) -> [BreakerTimestamp] {
    var seconds = time_t(now.millisecondsSince1970 / 1_000)
    var day = unsafe tm()
    unsafe localtime_r(&seconds, &day)
    // Its own time of day could be one that the other day does not have.
    unsafe (day.tm_hour, day.tm_min, day.tm_sec) = (12, 0, 0)
    unsafe day.tm_mday += days
    unsafe day.tm_isdst = -1
    unsafe mktime(&day)
    unsafe (day.tm_hour, day.tm_min, day.tm_sec) = (clock.hour, clock.minute, clock.second)
    let shown = [Int32(0), 1].compactMap { isSummer -> time_t? in
      var asked = unsafe day
      unsafe asked.tm_isdst = isSummer
      var found = unsafe mktime(&asked)
      var seen = unsafe tm()
      unsafe localtime_r(&found, &seen)
      let isShown =
        unsafe seen.tm_mday == day.tm_mday && seen.tm_hour == clock.hour
        && seen.tm_min == clock.minute && seen.tm_sec == clock.second
      return isShown ? found : nil
    }
    unsafe day.tm_isdst = 0
    let all = shown.isEmpty ? [unsafe mktime(&day)] : Array(Set(shown)).sorted()
    return all.map { BreakerTimestamp(millisecondsSince1970: Int64($0) * 1_000) }
  }

  static func isReadable(_ text: String) -> Bool {
    timeOfDay(text) != nil || timestamp(text) != nil
  }

  /// An instant of RFC 3339, with any fraction of a second and any offset from UTC.
  private static func timestamp(_ text: String) -> BreakerTimestamp? {
    let bytes = Array(text.utf8)
    // "2026-11-28T14:05:00" has 19 characters; a space may stand for the T.
    guard bytes.count > 19, [0x54, 0x74, 0x20].contains(bytes[10]) else { return nil }
    var zone = bytes[19...]
    var fraction: [UInt8] = []
    if zone.first == UInt8(ascii: ".") {
      fraction = zone.dropFirst().prefix { (0x30...0x39).contains($0) }
      zone = zone.dropFirst(1 + fraction.count)
      if fraction.isEmpty { return nil }
    }
    let milliseconds = String(decoding: (fraction + Array("000".utf8)).prefix(3), as: UTF8.self)
    let day = String(decoding: bytes[..<10], as: UTF8.self)
    let time = String(decoding: bytes[11..<19], as: UTF8.self)
    guard let offset = offset(zone),
      let instant = BreakerTimestamp("\(day)T\(time).\(milliseconds)Z")
    else { return nil }
    return BreakerTimestamp(
      millisecondsSince1970: instant.millisecondsSince1970 - Int64(offset) * 60_000)
  }

  /// How many minutes a zone such as Z or +01:00 is ahead of UTC; nil if the text is none.
  private static func offset(_ zone: ArraySlice<UInt8>) -> Int? {
    let text = String(decoding: zone, as: UTF8.self)
    if text == "Z" || text == "z" { return 0 }
    guard let sign = text.first, sign == "+" || sign == "-",
      let time = timeOfDay(String(text.dropFirst())), zone.count == 6
    else { return nil }
    let minutes = Int(time.hour) * 60 + Int(time.minute)
    return sign == "-" ? -minutes : minutes
  }

  private static func timeOfDay(_ text: String) -> (hour: Int32, minute: Int32, second: Int32)? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard (2...3).contains(parts.count) else { return nil }
    let numbers = parts.compactMap { part -> Int32? in
      let isPlain = part.utf8.count == 2 && part.utf8.allSatisfy { (0x30...0x39).contains($0) }
      return isPlain ? Int32(part) : nil
    }
    guard numbers.count == parts.count, numbers[0] < 24, numbers[1] < 60,
      numbers.dropFirst(2).allSatisfy({ $0 < 60 })
    else { return nil }
    return (numbers[0], numbers[1], numbers.count == 3 ? numbers[2] : 0)
  }
}
