import Glibc

/// Runs one call a number of times.
typealias Loop = (Int) throws -> Void

/// Seconds on a clock that never goes backwards and that all processes share.
func seconds() -> Double {
  var time = timespec()
  unsafe clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// A row of the table, and how to measure one value of it.
struct Figure {
  var subject: Subject

  /// Whether it takes so long that it is measured only in the first round.
  var isOnce = false
  var measure: () throws -> Double
}

/// Measures every figure once a round, in turn, so that a drift of the machine affects all alike.
func measure(_ figures: [Figure], rounds: Int) -> [Series] {
  var series = figures.map { Series($0.subject) }
  for round in 0..<rounds {
    complain("round \(round + 1) of \(rounds)")
    var values: [String: Double] = [:]
    for (index, figure) in figures.enumerated() {
      if figure.isOnce && round > 0 || series[index].trouble != nil { continue }
      do {
        let value = try figure.measure()
        values[figure.subject.name] = value
        series[index].add(value, floor: figure.subject.comparison.flatMap { values[$0.name] })
      } catch {
        series[index].trouble = "\(error)"
      }
    }
  }
  return series
}

func time(_ loop: Loop, _ count: Int) throws -> Double {
  let start = seconds()
  try loop(count)
  return seconds() - start
}

/// The number of calls that take about a given time.
///
/// It takes the best of several tries, because an interrupted one would look like a slow call.
private func callsLasting(_ goal: Double, _ loop: Loop) throws -> Int {
  var count = 16
  while true {
    let took = try (0..<5).map { _ in try time(loop, count) }.min() ?? 0
    if took >= goal / 4 { return max(1, Int(Double(count) * goal / took)) }
    count *= 2
  }
}

/// The nanoseconds of a call, in the best of ten short repetitions.
///
/// Other work of the machine can only add to them, and seldom to all ten.
func bestNanoseconds(_ loop: Loop) throws -> Double {
  let count = try callsLasting(0.005, loop)
  let times = try (0..<10).map { _ in try time(loop, count) }
  return (times.min() ?? .nan) / Double(count) * 1e9
}

/// The mean nanoseconds of a number of calls, which includes what happens only now and then.
func meanNanoseconds(_ loop: Loop, calls: Int) throws -> Double {
  try time(loop, calls) / Double(calls) * 1e9
}

/// The calls in a stretch of time: their number, and their mean and median cost.
struct Stretch {
  var calls = 0
  var mean = Double.nan

  /// The median of batches of a tenth of a millisecond, which interruptions do not affect.
  var median = Double.nan

  init(_ loop: Loop, from start: Double, for duration: Double) throws {
    let count = try callsLasting(1e-4, loop)
    while seconds() < start { usleep(100) }
    var batches: [Double] = []
    var now = seconds()
    let begin = now
    while now < start + duration || batches.isEmpty {
      try loop(count)
      let after = seconds()
      batches.append((after - now) / Double(count) * 1e9)
      now = after
    }
    calls = batches.count * count
    mean = (now - begin) / Double(calls) * 1e9
    median = bench.median(batches)
  }
}

/// Writes a message to standard error.
func complain(_ text: String) {
  let line = Array("bench: \(text)\n".utf8)
  _ = unsafe write(2, line, line.count)
}

struct BenchError: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

/// The result of one measurement, for several rows of the table that use it.
final class Latest<Value> {
  private var value: Value?
  private let take: () throws -> Value

  init(_ take: @escaping () throws -> Value) { self.take = take }

  /// Measures again, for the first of the rows.
  func renewed() throws -> Value {
    value = nil
    let taken = try take()
    value = taken
    return taken
  }

  /// Measures unless that was done already.
  func once() throws -> Value {
    if let value { return value }
    return try renewed()
  }

  /// Returns what the first of the rows has measured.
  func same() throws -> Value {
    guard let value else { throw BenchError("not measured: see above") }
    return value
  }
}
