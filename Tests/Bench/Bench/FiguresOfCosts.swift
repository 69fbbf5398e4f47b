extension Benchmark {
  /// The cost of calls in system calls, allocations and commits.
  func costFigures() -> [Figure] {
    let kinds: [(Load, String)] = [
      (.consecutive, "consecutive failures"), (.window, "time window"), (.last, "last calls"),
      (.decided, "rejections"), (.limited, "under a limit"),
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
        // Looking after the slots once a second allocates a little.
        figure("allocations", "/million", .atMost(load == .limited ? 10 : 0)) {
          try latest.renewed().allocations
        },
        figure("commits", "", .atMost(0)) { try latest.same().commits },
        figure("system calls but stat", "/million", .atMost(0)) {
          try traced { try latest.same().systemCalls }
        },
        // Of the store's file, and of that of the slots.
        figure("stat", "/s", .atMost(load == .limited ? 2 : 1)) {
          try traced { try latest.same().looks }
        },
      ]
    }
  }

  /// The cost of the first call in a forked child.
  func forkFigures() -> [Figure] {
    let topic = "the first call of a forked child"
    let count = scale.isQuick ? 100 : 300
    let latest = Latest { try ForkedCalls.measure(count, in: room.inner("forks")) }
    let traces = Latest { try ForkedCalls.systemCalls(in: room.inner("traced-forks")) }
    func figure(
      _ name: String, _ unit: String, against floor: String? = nil, atMost limit: Double? = nil,
      _ samples: String, _ value: @escaping () throws -> Double
    ) -> Figure {
      let subject = Subject(
        topic: topic, name: name, unit: unit, comparison: floor.map { .times($0) },
        goal: limit.map { Goal.atMost($0).compared }, samples: samples)
      return Figure(subject: subject, measure: value)
    }
    let raw = "raw: open the file, and one SELECT"
    let rawCalls = "system calls, raw"
    let samples = "median of \(count)"
    return [
      figure(raw, "µs", samples) { try latest.renewed().raw },
      figure("first call", "µs", against: raw, atMost: 1.5, samples) { try latest.same().own },
      figure(rawCalls, "", "1 child") { try traced { try traces.renewed().raw } },
      figure("system calls, first call", "", against: rawCalls, "1 child") {
        try traced { try traces.same().own }
      },
    ]
  }

  private func traced(_ value: () throws -> Double) throws -> Double {
    guard SystemCalls.strace != nil else { throw BenchError("left out: strace is not installed") }
    return try value()
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
