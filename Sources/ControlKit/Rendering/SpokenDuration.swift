import SharedBreaker

/// Durations for people: at most two units, `12s`, `1m 30s`, `3d 4h`.
enum SpokenDuration {
  static func format(_ duration: Duration) -> String {
    if duration <= .zero { return "0s" }
    let rounded = rounded(duration)
    if rounded < .seconds(1) { return "\(milliseconds(rounded))ms" }
    let seconds = rounded.components.seconds
    switch seconds {
    case ..<60: return "\(seconds)s"
    case ..<3_600: return pair(seconds, 60, "m", 1, "s")
    case ..<86_400: return pair(seconds, 3_600, "h", 60, "m")
    default: return pair(seconds, 86_400, "d", 3_600, "h")
    }
  }

  /// The same as one word, for programs that split a line at its spaces: `1m30s`.
  static func word(_ duration: Duration) -> String { format(duration).filter { $0 != " " } }

  /// The duration rounded for people: to seconds from 1 s on, minutes from 1 h, hours from 1 d.
  ///
  /// It rounds up, so that waiting as long as it says is always enough.
  static func rounded(_ duration: Duration) -> Duration {
    let milliseconds = milliseconds(duration)
    guard milliseconds > 999 else { return .milliseconds(milliseconds) }
    let (whole, rest) = duration.components
    let seconds = whole.addingReportingOverflow(rest > 0 ? 1 : 0).partialValue
    let step: Int64 =
      switch seconds {
      case ..<3_600: 1
      case ..<86_400: 60
      default: 3_600
      }
    return .seconds(seconds / step * step + (seconds % step > 0 ? step : 0))
  }

  /// Whole milliseconds, rounded up and never negative.
  static func milliseconds(_ duration: Duration) -> Int64 {
    max(0, DurationText.milliseconds(duration))
  }

  private static func pair(
    _ seconds: Int64, _ large: Int64, _ largeName: String, _ small: Int64, _ smallName: String
  ) -> String {
    let (count, rest) = (seconds / small).quotientAndRemainder(dividingBy: large / small)
    return rest == 0 ? "\(count)\(largeName)" : "\(count)\(largeName) \(rest)\(smallName)"
  }
}
