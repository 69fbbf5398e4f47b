import BenchReport

extension Bench {
  /// What calls cost in system calls, allocations and commits.
  func costFigures() -> [Figure] {
    let kinds: [(Load, String)] = [
      (.consecutive, "consecutive failures"), (.window, "time window"), (.last, "last calls"),
      (.decided, "rejections"),
    ]
    return kinds.flatMap { load, name in
      // A little more than two seconds, so that what is done once a second is done twice.
      let latest = Latest { try CostWatch.of(load, in: room, for: 2.05) }
      func figure(
        _ what: String, _ unit: String, _ goal: Goal, _ value: @escaping () throws -> Double
      ) -> Figure {
        let subject = Subject(
          topic: "what calls ask for", name: "\(what), \(name)", unit: unit, goal: goal,
          samples: "2.05 s of calls")
        return Figure(subject: subject, isOnce: scale.isQuick, measure: value)
      }
      return [
        figure("allocations", "/million", .atMost(0)) { try latest.renewed().allocations },
        figure("commits", "", .atMost(0)) { try latest.same().commits },
        figure("system calls but stat", "/million", .atMost(0)) {
          try traced(latest.same().systemCalls)
        },
        figure("stat", "/s", .atMost(1)) { try traced(latest.same().looks) },
      ]
    }
  }

  private func traced(_ value: Double) throws -> Double {
    guard CostWatch.strace != nil else { throw BenchError("left out: strace is not installed") }
    return value
  }

  /// Whether all processes see a change by one of them at their next call.
  func tripFigures() -> [Figure] {
    let checkers = 2
    let latest = Latest {
      try Checker.watch(scale.trips, checkers: checkers, in: room.inner("trips"))
    }
    func figure(_ name: String, _ value: @escaping () throws -> Double) -> Figure {
      let subject = Subject(
        topic: "seen at once", name: name, unit: "calls", goal: .atMost(0),
        samples: "\(scale.trips) trips, \(checkers) processes")
      return Figure(subject: subject, isOnce: true, measure: value)
    }
    return [
      figure("let through after a trip had returned") { try latest.renewed().permitted },
      figure("rejected after a reset had returned") { try latest.same().rejected },
    ]
  }
}
