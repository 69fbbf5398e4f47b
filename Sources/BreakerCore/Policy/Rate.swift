extension BreakerPolicy {
  /// A share from 0% to 100%, exact to one part in a million.
  ///
  /// The share is a whole number of millionths, not a floating-point number, so `>=` is exact at the
  /// boundary: 7 of 100 calls are 7%.
  public struct Rate: Sendable, Hashable, Comparable, ExpressibleByFloatLiteral {
    /// The share in millionths: 500,000 is one half.
    public let partsPerMillion: Int64

    /// Creates a rate of this many millionths.
    public init(partsPerMillion: Int64) { self.partsPerMillion = partsPerMillion }

    /// Creates a rate from a fraction: `0.5` is one half.
    public init(floatLiteral fraction: Double) { self.init(fraction) }

    /// Creates a rate from a fraction, rounded to the nearest millionth.
    ///
    /// A fraction that is negative or not a number becomes a rate that every policy refuses.
    public init(_ fraction: Double) {
      let parts = (fraction * 1_000_000).rounded()
      partsPerMillion = fraction >= 0 && parts < 1e15 ? Int64(parts) : -1
    }

    /// Creates a rate from a percentage.
    public static func percent(_ percent: Double) -> Rate { Rate(percent / 100) }

    /// Orders rates by size.
    public static func < (left: Rate, right: Rate) -> Bool {
      left.partsPerMillion < right.partsPerMillion
    }

    /// Whether `part` of `whole` is at least this rate.
    package func isReached(by part: Int64, of whole: Int64) -> Bool {
      part.multipliedSaturating(by: 1_000_000)
        >= partsPerMillion.multipliedSaturating(by: whole)
    }

    /// The smallest part of `whole` that reaches this rate.
    package func smallestPart(of whole: Int64) -> Int64 {
      let scaled = partsPerMillion.multipliedSaturating(by: whole)
      return scaled / 1_000_000 + (scaled % 1_000_000 > 0 ? 1 : 0)
    }
  }
}
