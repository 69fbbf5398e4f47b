import SharedBreaker
import TestSupport

extension Benchmark {
  /// How long after the deadline a caller continues if its work ignores the deadline.
  func timeoutFigures() throws -> [Figure] {
    let topic = "work that takes no notice of its timeout"
    let latest = Latest { try LateFreeing.watch(in: try room.inner("late")) }
    func figure(
      _ name: String, _ goal: Goal?, _ value: @escaping () throws -> Double
    ) -> Figure {
      let subject = Subject(
        topic: topic, name: name, unit: "ms", goal: goal, samples: "\(LateFreeing.calls) calls")
      return Figure(subject: subject, measure: value)
    }
    return [
      figure("caller freed after the deadline", .atMost(5)) {
        bench.median(try latest.renewed())
      },
      figure("caller freed after the deadline, the latest", nil) {
        try latest.same().max() ?? .nan
      },
    ]
  }

  /// How long a call blocks its thread while another process holds the store.
  ///
  /// The thread of an asynchronous caller is one of the few that all tasks share.
  func blockedFigures() -> [Figure] {
    let topic = "a store that another process holds"
    let limit = BlockedCall.lockTimeout / .milliseconds(1)
    return BlockedCall.Hold.allCases.map { hold in
      let subject = Subject(
        topic: topic, name: "longest call, \(hold.rawValue)", unit: "ms",
        goal: .atMost(limit * 1.1), samples: "\(hold.calls.count) calls")
      return Figure(subject: subject, isOnce: true) { try BlockedCall.longest(hold, in: room) }
    }
  }
}
