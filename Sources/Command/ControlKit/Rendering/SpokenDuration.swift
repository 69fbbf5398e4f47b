import SharedBreaker

/// Durations for people: at most two units, `12s`, `1m 30s`, `3d 4h`.
enum SpokenDuration {
  static func format(_ duration: Duration) -> String { DurationText.spoken(duration) }

  /// The duration as one word, for programs that split a line at its spaces: `1m30s`.
  static func word(_ duration: Duration) -> String { format(duration).filter { $0 != " " } }

  /// Whole milliseconds, rounded up and never negative.
  static func milliseconds(_ duration: Duration) -> Int64 {
    max(0, DurationText.milliseconds(duration))
  }
}

/// Times in the past, as ages and by the wall clock.
enum Age {
  /// How long ago: `just now`, `1m 30s ago`.
  static func text(of time: BreakerTimestamp, at now: BreakerTimestamp) -> String {
    let milliseconds = milliseconds(of: time, at: now)
    // If the clock was set back, the past looks like the future.
    guard milliseconds >= 1_000 else { return "just now" }
    return short(of: time, at: now) + " ago"
  }

  /// How long ago, as every other duration is written: `0s`, `1m 30s`, `3d 4h`.
  static func short(of time: BreakerTimestamp, at now: BreakerTimestamp) -> String {
    SpokenDuration.format(.seconds(max(0, milliseconds(of: time, at: now)) / 1_000))
  }

  /// The time of day in UTC, without the part of the date that is today's: `14:23:00Z`.
  static func clock(of time: BreakerTimestamp, at now: BreakerTimestamp) -> String {
    let text = time.description
    let seconds = text.prefix(19).dropFirst(11) + "Z"
    if text.prefix(10) == now.description.prefix(10) { return String(seconds) }
    let isThisYear = text.prefix(4) == now.description.prefix(4)
    return text.prefix(10).dropFirst(isThisYear ? 5 : 0) + " " + seconds
  }

  private static func milliseconds(of time: BreakerTimestamp, at now: BreakerTimestamp) -> Int64 {
    now.millisecondsSince1970.subtractingReportingOverflow(time.millisecondsSince1970).partialValue
  }
}

extension BreakerTimestamp {
  /// The time that lies `duration` earlier.
  func earlier(by duration: Duration) -> BreakerTimestamp {
    let (result, overflow) = millisecondsSince1970.subtractingReportingOverflow(
      SpokenDuration.milliseconds(duration))
    return BreakerTimestamp(millisecondsSince1970: overflow ? .min : result)
  }

  /// The time that lies `duration` later.
  func later(by duration: Duration) -> BreakerTimestamp {
    let (result, overflow) = millisecondsSince1970.addingReportingOverflow(
      SpokenDuration.milliseconds(duration))
    return BreakerTimestamp(millisecondsSince1970: overflow ? .max : result)
  }
}

/// Shares for people: `50%`, `33.3%`.
enum RateWords {
  /// A share with at most one decimal, which fits a table.
  static func format(_ share: Double) -> String {
    guard share.isFinite else { return "-" }
    let (whole, tenth) = Int((min(max(share, 0), 1) * 1_000).rounded()).quotientAndRemainder(
      dividingBy: 10)
    return tenth == 0 ? "\(whole)%" : "\(whole).\(tenth)%"
  }
}
