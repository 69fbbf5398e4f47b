extension Benchmark {
  /// Plots cost against the number of processes and of breakers; each point is a median of rounds.
  func plot() throws -> String {
    let processes = [1, 2, 4, 8, 16]
    let breakers = [1, 10, 100, 1_000, 10_000, 100_000]
    let rounds = scale.isQuick ? 1 : 3
    func lines(
      _ kinds: [(String, (Int) throws -> Double)], _ counts: [Int]
    ) throws -> [PlotLine] {
      // Round by round, so that a drift of the machine affects all lines alike.
      var values = kinds.map { _ in counts.map { _ in [Double]() } }
      for _ in 0..<rounds {
        for (column, count) in counts.enumerated() {
          for (row, kind) in kinds.enumerated() { values[row][column].append(try kind.1(count)) }
        }
      }
      return zip(kinds, values).map { kind, values in
        PlotLine(
          name: kind.0, points: zip(counts, values).map { (Double($0), median($1)) })
      }
    }
    func calls(_ load: Load) -> (Int) throws -> Double {
      { try Caller.nanoseconds(load, processes: $0, in: room, for: 0.3) }
    }
    func writes(_ load: Load) -> (Int) throws -> Double {
      {
        1e6 / (try Writer.run(load, processes: $0, in: room, for: 0.3).rate)
      }
    }
    let looks = breakers.map { count in (count, Latest { try ManyBreakers.look(count, in: room) }) }
    func look(_ count: Int) throws -> Latest<ManyBreakers.Result> {
      guard let look = looks.first(where: { $0.0 == count }) else { throw BenchError("no look") }
      return look.1
    }
    return try Plot.svg([
      Chart(
        title: "Healthy call, several processes on one breaker",
        across: "processes", up: "nanoseconds a call, as each process sees it",
        lines: lines(
          [
            ("bare call", calls(.bare)), ("consecutive failures", calls(.consecutive)),
            ("time window", calls(.window)), ("last calls", calls(.last)),
          ], processes)),
      Chart(
        title: "Failure recorded, several processes on one breaker",
        across: "processes", up: "microseconds between two commits",
        lines: lines(
          [
            ("raw transaction, SQLite's waiting", writes(.rawTimeout)),
            ("raw transaction, the library's waiting", writes(.raw)),
            ("failure recorded", writes(.failure)),
          ], processes)),
      Chart(
        title: "Healthy call, many breakers in random order",
        across: "breakers in the store", up: "nanoseconds a call",
        lines: lines(
          [
            ("as many bare objects", { try look($0).renewed().nanosecondsOfObjects }),
            ("line of memory, found by the one before", { try look($0).same().nanosecondsOfLine }),
            ("one of them", { try look($0).same().nanosecondsOfOne }),
            ("all of them", { try look($0).same().nanosecondsOfAll }),
          ], breakers)),
    ])
  }
}
