/// Rates as people write them: `50%`, `12.5%`.
public enum RateText {
  /// Parses a percentage such as `50%`; nil if the text is anything else.
  public static func parse(_ text: String) -> BreakerPolicy.Rate? {
    guard text.utf8.last == 0x25 else { return nil }
    return FactorText.parse(String(Substring(text.utf8.dropLast()))).map {
      BreakerPolicy.Rate.percent($0)
    }
  }

  /// Formats a rate; `parse` reads the same rate back.
  public static func format(_ rate: BreakerPolicy.Rate) -> String {
    let sign = rate.partsPerMillion < 0 ? "-" : ""
    let (whole, rest) = rate.partsPerMillion.magnitude.quotientAndRemainder(dividingBy: 10_000)
    guard rest != 0 else { return "\(sign)\(whole)%" }
    var decimals = String(rest)
    decimals = String(repeating: "0", count: 4 - decimals.count) + decimals
    while decimals.hasSuffix("0") { decimals.removeLast() }
    return "\(sign)\(whole).\(decimals)%"
  }
}
