/// Durations as people write them: `250ms`, `30s`, `5m`, `2h`, `1d`, and also `10us`.
public enum DurationText {
  private static let units: [(name: String, nanoseconds: Int64)] = [
    ("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000),
    ("h", 3_600_000_000_000), ("d", 86_400_000_000_000),
  ]

  /// Parses a whole number followed by its unit, such as `30s`; nil if the text is anything else.
  public static func parse(_ text: String) -> Duration? {
    let digits = text.utf8.prefix { (0x30...0x39).contains($0) }
    let unit = Substring(text.utf8.dropFirst(digits.count))
    guard let count = Int64(Substring(digits)),
      let nanoseconds = units.first(where: { $0.name == unit })?.nanoseconds
    else { return nil }
    let (product, overflow) = count.multipliedReportingOverflow(by: nanoseconds)
    return overflow ? nil : .nanoseconds(product)
  }

  /// Formats a duration in the largest unit that is exact; `parse` reads the same duration back.
  public static func format(_ duration: Duration) -> String {
    let nanoseconds = duration.inNanoseconds
    guard nanoseconds != 0 else { return "0s" }
    for unit in units.reversed() where nanoseconds % unit.nanoseconds == 0 {
      return "\(nanoseconds / unit.nanoseconds)\(unit.name)"
    }
    return "\(nanoseconds)ns"
  }

  /// Returns a duration in whole milliseconds, rounded up, as JSON documents state it.
  public static func milliseconds(_ duration: Duration) -> Int64 {
    let (seconds, attoseconds) = duration.components
    let perMillisecond: Int64 = 1_000_000_000_000_000
    let rest = attoseconds / perMillisecond + (attoseconds % perMillisecond > 0 ? 1 : 0)
    return seconds.multipliedSaturating(by: 1_000).addingSaturating(rest)
  }

  static func format(_ duration: Duration?) -> String { duration.map { format($0) } ?? "none" }
}
