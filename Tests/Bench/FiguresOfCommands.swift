import BenchReport
import SharedBreaker
import TestSupport

extension Bench {
  /// The cost of `cbctl check` before each call of a script, beside the least that reading costs.
  func commandFigures() throws -> [Figure] {
    let topic = "a command, from its start to its exit"
    let room = try room.inner("commands")
    let store = room.openStore()
    _ = try store.breaker("api", policy: BreakerPolicy(maxFailures: 3))
    try store.connect()
    let floor = "sqlite3 FILE 'select 1'"
    let name = "cbctl check"
    let repetitions = scale.isQuick ? 30 : 100
    // Taken in turn, so that other work of the machine affects both alike.
    let latest = Latest {
      var times: (floor: [Double], check: [Double]) = ([], [])
      for _ in 0..<repetitions {
        times.floor.append(try milliseconds(of: try sqlite3(), [room.store, "select 1"]))
        times.check.append(
          try milliseconds(
            of: BuiltProducts.path(of: "cbctl"), ["check", "api", "--store", room.store]))
      }
      return (floor: median(times.floor), check: median(times.check))
    }
    func figure(
      _ name: String, against comparison: Comparison? = nil, goal: Goal? = nil,
      _ value: @escaping () throws -> Double
    ) -> Figure {
      Figure(
        subject: Subject(
          topic: topic, name: name, unit: "ms", comparison: comparison, goal: goal,
          samples: "median of \(repetitions)"),
        measure: value)
    }
    return [
      figure(floor) { try latest.renewed().floor },
      figure(name, goal: .atMost(5)) { try latest.same().check },
      figure("\(name), against that", against: .times(floor), goal: .atMost(3).compared) {
        try latest.same().check
      },
    ]
  }

  private func milliseconds(of program: String, _ words: [String]) throws -> Double {
    let start = seconds()
    _ = try Child.run(program, words, patienceMilliseconds: Children.patienceMilliseconds)
    return (seconds() - start) * 1e3
  }

  private func sqlite3() throws -> String {
    let places = ["/usr/local/bin/sqlite3", "/usr/bin/sqlite3"]
    guard let found = places.first(where: { Files.exists($0) }) else {
      throw BenchError("sqlite3 is missing")
    }
    return found
  }
}
