import Glibc

/// Seconds on a clock that only goes forward.
func seconds() -> Double {
  var time = timespec()
  unsafe clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// One row of the table: what is measured, and the floor that it is measured against.
struct Figure {
  var name: String
  var unit: String

  /// The figure of the same round that this one is compared with, if any.
  var floor: String?

  /// Whether the comparison is what is left over the floor, or how many times the floor.
  var isDifference = false
  var measure: () throws -> Double
}

/// The values of one figure over all rounds.
struct Series {
  var figure: Figure
  var values: [Double] = []
  var compared: [Double] = []
}

func median(_ values: [Double]) -> Double {
  let sorted = values.sorted()
  guard !sorted.isEmpty else { return .nan }
  let middle = sorted.count / 2
  return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/// Measures every figure once a round, in turn, so that a drift of the machine meets all of them.
func measure(_ figures: [Figure], rounds: Int) throws -> [Series] {
  var series = figures.map { Series(figure: $0) }
  for _ in 0..<rounds {
    var round: [String: Double] = [:]
    for index in series.indices {
      let figure = series[index].figure
      let value = try figure.measure()
      round[figure.name] = value
      series[index].values.append(value)
      if let floor = figure.floor.flatMap({ round[$0] }), floor > 0 {
        series[index].compared.append(figure.isDifference ? value - floor : value / floor)
      }
    }
  }
  return series
}

/// Nanoseconds for each of `count` runs of a body.
func nanosecondsEach(_ count: Int, _ body: () throws -> Void) rethrows -> Double {
  let start = seconds()
  for _ in 0..<count { try body() }
  return (seconds() - start) / Double(count) * 1e9
}
