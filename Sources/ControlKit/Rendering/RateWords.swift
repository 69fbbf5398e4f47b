/// Shares for people: `50%`, `33.3%`.
enum RateWords {
  /// A share with at most one decimal, to fit a table.
  static func format(_ share: Double) -> String {
    guard share.isFinite else { return "-" }
    let (whole, tenth) = Int((min(max(share, 0), 1) * 1_000).rounded()).quotientAndRemainder(
      dividingBy: 10)
    return tenth == 0 ? "\(whole)%" : "\(whole).\(tenth)%"
  }
}
