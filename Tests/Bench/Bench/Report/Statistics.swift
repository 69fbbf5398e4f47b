/// The least, the median and the greatest of several values.
struct Spread: Equatable {
  var least: Double
  var median: Double
  var greatest: Double

  /// Creates a spread; nil if no value is finite.
  init?(_ values: [Double]) {
    let sorted = values.filter(\.isFinite).sorted()
    guard let least = sorted.first, let greatest = sorted.last else { return nil }
    self.least = least
    self.greatest = greatest
    let middle = sorted.count / 2
    median =
      sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
  }
}

/// The median of several values; not a number if there are none.
func median(_ values: [Double]) -> Double { Spread(values)?.median ?? .nan }

enum Digits {
  /// A number with three significant digits.
  static func short(_ value: Double) -> String {
    guard value.isFinite else { return "-" }
    let size = value.magnitude
    guard size < 1e15 else { return String(value) }
    let places = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.1 ? 2 : 4
    return fixed(value, places)
  }

  /// A number for the tick of an axis, without trailing zeros.
  static func plain(_ value: Double) -> String {
    value == value.rounded() ? fixed(value, 0) : value >= 0.1 ? fixed(value, 1) : "\(value)"
  }

  static func fixed(_ value: Double, _ places: Int) -> String {
    var scale = 1.0
    for _ in 0..<places { scale *= 10 }
    let scaled = Int64((value.magnitude * scale).rounded())
    let sign = value < 0 && scaled != 0 ? "-" : ""
    let whole = scaled / Int64(scale)
    guard places > 0 else { return "\(sign)\(whole)" }
    let rest = String(scaled % Int64(scale))
    return "\(sign)\(whole)." + String(repeating: "0", count: places - rest.count) + rest
  }
}
