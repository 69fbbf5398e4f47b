import TestSupport

extension Benchmark {
  /// The cost of a healthy call while a process keeps failing at another breaker of the store.
  func neighbourFigures() throws -> [Figure] {
    let topic = "healthy call beside a neighbour who fails"
    let loop = try Load.consecutive.loop(in: room, on: store)
    let quiet = "healthy call, quiet"
    let pace = 1_000.0
    let latest = Latest {
      try Neighbour.disturb(loop, in: room, rate: pace, for: scale.seconds + 0.2)
    }
    let samples = "mean of \(Digits.short(scale.seconds)) s"
    return [
      Figure(
        subject: Subject(topic: topic, name: quiet, unit: "ns", samples: samples)
      ) { try Stretch(loop, from: seconds(), for: scale.seconds).mean },
      Figure(
        subject: Subject(
          topic: topic, name: "healthy call, beside it", unit: "ns", comparison: .times(quiet),
          goal: .atMost(3).compared, samples: samples)
      ) { try latest.renewed().nanoseconds },
      Figure(
        subject: Subject(
          topic: topic, name: "failures of the neighbour, of \(Digits.short(pace))", unit: "/s",
          samples: samples)
      ) { try latest.same().rate },
    ]
  }

  /// The costs with very many breakers.
  func manyFigures() throws -> [Figure] {
    let count = scale.breakers
    let topic = "\(count) breakers in one store"
    let latest = Latest { try ManyBreakers.look(count, in: room) }
    func figure(
      _ name: String, _ unit: String, against comparison: Comparison? = nil, goal: Goal? = nil,
      _ value: @escaping () throws -> Double
    ) -> Figure {
      let subject = Subject(
        topic: topic, name: name, unit: unit, comparison: comparison, goal: goal,
        samples: "best of 10")
      return Figure(subject: subject, isOnce: true, measure: value)
    }
    let one = "healthy call, always the same"
    let store = try ManyBreakers.room(room, count).store
    return [
      figure(one, "ns") { try latest.renewed().nanosecondsOfOne },
      figure("as many atomic counters, in random order", "ns") {
        try latest.same().nanosecondsOfObjects
      },
      figure("line of memory, found by the one before", "ns") {
        try latest.same().nanosecondsOfLine
      },
      figure(
        "healthy call, all in random order", "ns", against: .times(one),
        goal: .atMost(2).compared
      ) { try latest.same().nanosecondsOfAll },
      figure("resident bytes of a handle, without its name", "bytes", goal: .atMost(300)) {
        try latest.same().bytesOfHandle
      },
      commandFigure(topic, "cbctl status of one", [ManyBreakers.name(count / 2)], store, 10),
      commandFigure(topic, "cbctl status of all", [], store, 1_000),
    ]
  }

  private func commandFigure(
    _ topic: String, _ name: String, _ words: [String], _ store: String, _ limit: Double
  ) -> Figure {
    let repetitions = words.isEmpty ? 1 : 5
    let subject = Subject(
      topic: topic, name: name, unit: "ms", goal: .atMost(limit),
      samples: repetitions == 1 ? "1" : "median of \(repetitions)")
    return Figure(subject: subject, isOnce: words.isEmpty && scale.isQuick) {
      median(
        try (0..<repetitions).map { _ in
          let start = seconds()
          _ = try Child.run(
            BuiltProducts.path(of: "cbctl"), ["--store", store, "status"] + words,
            patienceMilliseconds: Children.patienceMilliseconds)
          return (seconds() - start) * 1e3
        })
    }
  }

  /// How much memory a process needs for a store.
  func memoryFigures() -> [Figure] {
    let floor = "the same program without a store"
    func figure(
      _ name: String, against floor: String? = nil, _ value: @escaping () throws -> Double
    ) -> Figure {
      let subject = Subject(
        topic: "memory of a process", name: name, unit: "MB",
        comparison: floor.map { Comparison.over($0) }, samples: "1 process")
      return Figure(subject: subject, measure: value)
    }
    let ownFloor = "\(floor), its own memory"
    return [
      figure(floor) { try ResidentMemory.megabytes(.rests, in: room).all },
      figure("program that uses a store", against: floor) {
        try ResidentMemory.megabytes(.opens, in: room).all
      },
      figure(ownFloor) { try ResidentMemory.megabytes(.rests, in: room).own },
      figure("program that uses a store, its own memory", against: ownFloor) {
        try ResidentMemory.megabytes(.opens, in: room).own
      },
    ]
  }
}
