internal import Glibc

/// Where the values of a logarithmic axis lie.
struct LogScale {
  private let lowest: Double
  private let highest: Double
  private let start: Double
  private let end: Double

  /// Nil if there is nothing to show.
  init?(_ values: [Double], from start: Double, to end: Double) {
    guard let spread = Spread(values), spread.least > 0 else { return nil }
    lowest = spread.least
    // An axis of one value has it at its beginning.
    highest = max(spread.greatest, spread.least * 1.000_001)
    self.start = start
    self.end = end
  }

  func place(_ value: Double) -> Double {
    start + (end - start) * (log(value / lowest) / log(highest / lowest))
  }

  /// The round numbers between the ends.
  var ticks: [Double] {
    var ticks: [Double] = []
    var decade = 1e-9
    while decade <= highest {
      ticks += [1, 2, 5].map { $0 * decade }.filter { $0 >= lowest && $0 <= highest }
      decade *= 10
    }
    return ticks
  }
}
