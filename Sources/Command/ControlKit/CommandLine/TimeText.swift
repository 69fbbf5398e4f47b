import Glibc
import SharedBreaker

/// An instant on the command line: a time of day, or an instant as RFC 3339 writes it.
enum TimeText {
  /// The instant; nil if the text is neither.
  ///
  /// A time of day is the next one of the local clock.
  static func instant(_ text: String, now: BreakerTimestamp) -> BreakerTimestamp? {
    guard let clock = timeOfDay(text) else { return timestamp(text) }
    let today = local(clock, daysLater: 0, than: now)
    return today > now ? today : local(clock, daysLater: 1, than: now)
  }

  /// The latest instant that a text means: one that was so long ago, or that a clock last showed; nil if it is none.
  static func past(_ text: String, now: BreakerTimestamp) -> BreakerTimestamp? {
    if let age = DurationText.parse(text) { return now.earlier(by: age) }
    if text == "today" { return local((0, 0, 0), daysLater: 0, than: now) }
    if text == "yesterday" { return local((0, 0, 0), daysLater: -1, than: now) }
    guard let clock = timeOfDay(text) else { return timestamp(text) }
    let today = local(clock, daysLater: 0, than: now)
    return today <= now ? today : local(clock, daysLater: -1, than: now)
  }

  /// When the local clock shows a time, on the day of an instant or some days later.
  private static func local(
    _ clock: (hour: Int32, minute: Int32, second: Int32), daysLater days: Int32,
    than now: BreakerTimestamp
  ) -> BreakerTimestamp {
    var seconds = time_t(now.millisecondsSince1970 / 1_000)
    var local = unsafe tm()
    unsafe localtime_r(&seconds, &local)
    unsafe local.tm_hour = clock.hour
    unsafe local.tm_min = clock.minute
    unsafe local.tm_sec = clock.second
    unsafe local.tm_mday += days
    // Let the library find out whether summer time is in force then.
    unsafe local.tm_isdst = -1
    return BreakerTimestamp(millisecondsSince1970: Int64(unsafe mktime(&local)) * 1_000)
  }

  static func isReadable(_ text: String) -> Bool {
    timeOfDay(text) != nil || timestamp(text) != nil
  }

  /// An instant in UTC, with milliseconds or without.
  private static func timestamp(_ text: String) -> BreakerTimestamp? {
    BreakerTimestamp(text)
      ?? (text.hasSuffix("Z") ? BreakerTimestamp(text.dropLast() + ".000Z") : nil)
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
