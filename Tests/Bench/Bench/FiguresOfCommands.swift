import SharedBreaker
import TestSupport

extension Benchmark {
  /// The cost of commands in a script, beside the least cost of a process that reads a file.
  func commandFigures() throws -> [Figure] {
    let room = try room.inner("commands")
    let store = room.openStore()
    _ = try store.breaker("api", policy: BreakerPolicy(maxFailures: 3))
    try store.connect()
    let (bare, floor) = ("true", "sqlite3 FILE 'select 1'")
    let cbctl = BuiltProducts.path(of: "cbctl")
    let commands: [(name: String, program: String, words: [String], against: Comparison?, Goal?)] =
      [
        (bare, "/bin/true", [], nil, nil),
        (floor, sqlite3, [room.store, "select 1"], nil, nil),
        ("cbctl --version", cbctl, ["--version"], .over(bare), nil),
        (
          "cbctl check", cbctl, ["check", "api", "--store", room.store], .times(floor),
          Goal.atMost(1.8).compared
        ),
        (
          "cbctl run x -- true", cbctl, ["--store", room.store, "run", "x", "--", "/bin/true"],
          .over(bare), Goal.atMost(3).compared
        ),
      ]
    let repetitions = scale.isQuick ? 50 : 100
    // Taken in turn, so that other work of the machine affects all alike.
    let latest = Latest {
      var times = commands.map { _ in [Double]() }
      for _ in 0..<repetitions {
        for (index, command) in commands.enumerated() {
          times[index].append(try milliseconds(of: command.program, command.words))
        }
      }
      return times.map { median($0) }
    }
    return commands.enumerated().map { index, command in
      let (name, _, _, comparison, goal) = command
      let subject = Subject(
        topic: "a command, from its start to its exit", name: name, unit: "ms",
        comparison: comparison, goal: goal, samples: "median of \(repetitions)")
      return Figure(subject: subject) {
        index == 0 ? try latest.renewed()[0] : try latest.same()[index]
      }
    }
  }

  private func milliseconds(of program: String, _ words: [String]) throws -> Double {
    let start = seconds()
    _ = try Child.run(program, words, patienceMilliseconds: Children.patienceMilliseconds)
    return (seconds() - start) * 1e3
  }

  private var sqlite3: String {
    let own = "/usr/local/bin/sqlite3"
    return Files.exists(own) ? own : "/usr/bin/sqlite3"
  }
}
