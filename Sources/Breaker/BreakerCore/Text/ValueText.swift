/// Durations as people write them: `250ms`, `30s`, `5m`, `2h`, `1d`, and also `10us`.
public enum DurationText {
  private static let units: [(name: String, nanoseconds: Int64)] = [
    ("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000),
    ("h", 3_600_000_000_000), ("d", 86_400_000_000_000),
  ]

  /// Parses whole numbers, each followed by its unit and the largest first, such as `30s`, `1h30m` or `1h 30m`; nil
  /// if the text is anything else.
  public static func parse(_ text: String) -> Duration? {
    var total: Int64 = 0
    var smallest = Int64.max
    for part in text.split(separator: " ", maxSplits: units.count, omittingEmptySubsequences: false)
    {
      var rest = part.utf8
      repeat {
        let digits = rest.prefix { (0x30...0x39).contains($0) }
        let letters = rest.dropFirst(digits.count).prefix { !(0x30...0x39).contains($0) }
        guard let count = Int64(Substring(digits)),
          let unit = units.first(where: { $0.name == Substring(letters) })?.nanoseconds,
          unit < smallest
        else { return nil }
        let (product, isTooMuch) = count.multipliedReportingOverflow(by: unit)
        let (sum, isTooLong) = total.addingReportingOverflow(product)
        guard !isTooMuch, !isTooLong else { return nil }
        (total, smallest) = (sum, unit)
        rest = rest.dropFirst(digits.count + letters.count)
      } while !rest.isEmpty
    }
    return .nanoseconds(total)
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

  /// Writes a duration for people, in at most two units: `12s`, `1m 30s`, `3d 4h`.
  ///
  /// It is rounded up, so that waiting that long is always enough: to seconds from 1 s on, to minutes
  /// from 1 h on, and to hours from 1 d on.
  public static func spoken(_ duration: Duration) -> String {
    let milliseconds = milliseconds(duration)
    guard milliseconds > 0 else { return "0s" }
    guard milliseconds > 999 else { return "\(milliseconds)ms" }
    let (whole, rest) = duration.components
    let seconds = rest > 0 ? whole.addingSaturating(1) : whole
    switch seconds {
    case ..<60: return "\(seconds)s"
    case ..<3_600: return pair(seconds, 60, "m", "s")
    case ..<86_400:
      let minutes = (seconds + 59) / 60
      return minutes == 1_440 ? "1d" : pair(minutes, 60, "h", "m")
    default: return pair(seconds / 3_600 + (seconds % 3_600 > 0 ? 1 : 0), 24, "d", "h")
    }
  }

  private static func pair(
    _ count: Int64, _ size: Int64, _ large: String, _ small: String
  ) -> String {
    let (whole, rest) = count.quotientAndRemainder(dividingBy: size)
    return rest == 0 ? "\(whole)\(large)" : "\(whole)\(large) \(rest)\(small)"
  }
}

/// Whole numbers such as `5`: digits only.
package enum CountText {
  package static func parse(_ text: String) -> Int? {
    text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
  }
}

extension BreakerPolicy.Rate: LosslessStringConvertible {
  /// Reads a percentage as people write it, such as `50%` or `12.5%`; nil if the text is anything else.
  public init?(_ description: String) {
    guard description.utf8.last == 0x25,
      let percent = FactorText.parse(String(Substring(description.utf8.dropLast())))
    else { return nil }
    self = .percent(percent)
  }

  /// The rate as a percentage, from which the same rate is read.
  public var description: String {
    let sign = partsPerMillion < 0 ? "-" : ""
    let (whole, rest) = partsPerMillion.magnitude.quotientAndRemainder(dividingBy: 10_000)
    guard rest != 0 else { return "\(sign)\(whole)%" }
    var decimals = String(rest)
    decimals = String(repeating: "0", count: 4 - decimals.count) + decimals
    while decimals.hasSuffix("0") { decimals.removeLast() }
    return "\(sign)\(whole).\(decimals)%"
  }
}

/// Plain decimal numbers such as `1.5`, without a sign, an exponent or words.
enum FactorText {
  static func parse(_ text: String) -> Double? {
    let isPlain = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2E }
    return isPlain && !text.isEmpty && text.utf8.count <= 20 ? Double(text) : nil
  }

  static func format(_ factor: Double) -> String {
    let text = String(factor)
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }
}

/// Quorums as people write them: `3`, `30%`.
enum QuorumText {
  static func parse(_ text: String) -> FleetQuorum? {
    CountText.parse(text).map { .hosts($0) } ?? BreakerPolicy.Rate(text).map { .share($0) }
  }

  static func format(_ quorum: FleetQuorum) -> String {
    switch quorum {
    case .hosts(let count): String(count)
    case .share(let rate): rate.description
    }
  }
}

/// A word that is set or not: `yes` or `no`.
enum FlagText {
  static let words = ["no", "yes"]

  static func parse(_ text: String) -> Bool? { words.firstIndex(of: text).map { $0 == 1 } }

  static func format(_ flag: Bool) -> String { words[flag ? 1 : 0] }
}

/// A count with its noun, as people read it: `0 calls`, `1 call`, `2 policies`.
public enum CountedNoun {
  /// The count and the noun; `plural` is for a noun that does not only take an `s`.
  public static func text(
    _ count: some BinaryInteger, _ noun: String, plural: String? = nil
  ) -> String {
    "\(count) " + (count == 1 ? noun : plural ?? noun + "s")
  }
}
