import BenchReport
import Glibc

/// Runs one call so many times.
typealias Loop = (Int) throws -> Void

/// Seconds on a clock that only goes forward, and that all processes share.
func seconds() -> Double {
  var time = timespec()
  unsafe clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// A row of the table, and how one value of it is taken.
struct Figure {
  var subject: Subject

  /// Whether it takes so long that only the first round has it.
  var isOnce = false
  var measure: () throws -> Double
}

/// Measures every figure once a round, in turn, so that a drift of the machine meets all of them.
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

/// How many calls take about so long.
///
/// By the best of some tries: one that was interrupted would pass for a slow call.
private func callsLasting(_ goal: Double, _ loop: Loop) throws -> Int {
  var count = 16
  while true {
    let took = try (0..<5).map { _ in try time(loop, count) }.min() ?? 0
    if took >= goal / 4 { return max(1, Int(Double(count) * goal / took)) }
    count *= 2
  }
}

/// Nanoseconds for each call, in the best of ten short repetitions.
///
/// What else the machine does can only add to them, and seldom to all ten.
func bestNanoseconds(_ loop: Loop) throws -> Double {
  let count = try callsLasting(0.005, loop)
  let times = try (0..<10).map { _ in try time(loop, count) }
  return (times.min() ?? .nan) / Double(count) * 1e9
}

/// Nanoseconds for each of so many calls, on average: nothing that happens now and then is left out.
func meanNanoseconds(_ loop: Loop, calls: Int) throws -> Double {
  try time(loop, calls) / Double(calls) * 1e9
}

/// What calls cost over a stretch of time: how many there were, and their mean and middle cost.
struct Stretch {
  var calls = 0
  var mean = Double.nan

  /// Of batches of a tenth of a millisecond: what interrupts a process does not count.
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
    median = BenchReport.median(batches)
  }
}

/// Says on standard error what is going on.
func complain(_ text: String) {
  let line = Array("bench: \(text)\n".utf8)
  _ = unsafe write(2, line, line.count)
}

struct BenchError: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}
