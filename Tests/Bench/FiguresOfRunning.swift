import BenchReport
import TestSupport

extension Bench {
  /// What it costs a script to run a command behind a breaker.
  func runFigures() -> [Figure] {
    let topic = "a command of a script"
    let bare = "true"
    let store = room.file("commands.db")
    func figure(
      _ name: String, _ program: String, _ words: [String], against comparison: Comparison? = nil,
      goal: Goal? = nil
    ) -> Figure {
      let runs = 20
      let subject = Subject(
        topic: topic, name: name, unit: "ms", comparison: comparison, goal: goal,
        samples: "median of \(runs)")
      return Figure(subject: subject) {
        let times = try (0..<runs).map { _ in
          try time({ _ in _ = try Child.run(program, words) }, 1) * 1_000
        }
        return median(times)
      }
    }
    let words = ["--store", store, "run", "x", "--", "/bin/true"]
    return [
      figure(bare, "/bin/true", []),
      figure(
        "cbctl run x -- true", BuiltProducts.path(of: "cbctl"), words, against: .over(bare),
        goal: .atMost(5).compared),
    ]
  }
}
