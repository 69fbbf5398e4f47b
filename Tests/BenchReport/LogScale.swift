internal import Glibc

/// A logarithmic axis.
struct LogScale {
  private let lowest: Double
  private let highest: Double
  private let start: Double
  private let end: Double

  /// Creates an axis between two round numbers; nil if there is nothing to show.
  init?(_ values: [Double], from start: Double, to end: Double) {
    guard let spread = Spread(values), spread.least > 0 else { return nil }
    let below = Self.rounds.last { $0 <= spread.least } ?? spread.least
    lowest = below
    highest = Self.rounds.first { $0 >= spread.greatest && $0 > below } ?? spread.greatest * 2
    self.start = start
    self.end = end
  }

  /// One, two and five of each power of ten.
  private static let rounds: [Double] = (-9...15).flatMap { power in
    let decade = power < 0 ? 1 / pow(10, Double(-power)) : pow(10, Double(power))
    return [decade, 2 * decade, 5 * decade]
  }

  func place(_ value: Double) -> Double {
    start + (end - start) * (log(value / lowest) / log(highest / lowest))
  }

  /// The round numbers on the axis.
  var ticks: [Double] { Self.rounds.filter { $0 >= lowest && $0 <= highest } }
}
