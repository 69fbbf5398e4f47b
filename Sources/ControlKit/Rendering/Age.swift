import SharedBreaker

/// Times in the past, as ages and by the wall clock.
enum Age {
  /// How long ago: `just now`, `1m 30s ago`.
  static func text(of time: BreakerTimestamp, at now: BreakerTimestamp) -> String {
    let milliseconds = milliseconds(of: time, at: now)
    // If the clock was set back, the past looks like the future.
    guard milliseconds >= 1_000 else { return "just now" }
    return SpokenDuration.format(.seconds(milliseconds / 1_000)) + " ago"
  }

  /// How long ago, in one unit: `0s`, `90s`, `12m`, `3d`.
  static func short(of time: BreakerTimestamp, at now: BreakerTimestamp) -> String {
    let seconds = max(0, milliseconds(of: time, at: now)) / 1_000
    return switch seconds {
    case ..<120: "\(seconds)s"
    case ..<7_200: "\(seconds / 60)m"
    case ..<172_800: "\(seconds / 3_600)h"
    default: "\(seconds / 86_400)d"
    }
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
