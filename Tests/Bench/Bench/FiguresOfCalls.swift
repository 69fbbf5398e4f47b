extension Benchmark {
  /// The cost of a call through a healthy breaker.
  func healthyFigures() throws -> [Figure] {
    let topic = "healthy call"
    let alone = [
      try figure(
        topic, "run, consecutive failures", .consecutive, against: .over("bare closure call"),
        goal: .atMost(10).compared),
      try figure(
        topic, "run, time window", .window, against: .over("bare closure call"),
        goal: .atMost(25).compared),
      try figure(
        topic, "run, last calls", .last, against: .over("bare closure call"),
        goal: .atMost(25).compared),
      try figure(
        topic, "run, slow calls looked for", .slow, against: .over("bare closure call"),
        goal: .atMost(70).compared),
      try figure(
        topic, "run, async", .awaited, against: .over("bare await"), goal: .atMost(50).compared),
      try figure(
        topic, "run, async, on an actor", .actor, against: .over("bare await, on an actor"),
        goal: .atMost(50).compared),
    ]
    let library = try libraryFigures(topic)
    let bare = "bare closure call, 2 processes"
    let kinds: [(String, Load, Goal?)] = [
      (bare, .bare, nil), ("run, consecutive failures, 2 processes", .consecutive, nil),
      ("run, time window, 2 processes", .window, .atMost(80).compared),
      ("run, last calls, 2 processes", .last, .atMost(80).compared),
    ]
    let together = kinds.map { name, load, goal in
      let subject = Subject(
        topic: topic, name: name, unit: "ns", comparison: load == .bare ? nil : .over(bare),
        goal: goal, samples: "mean of 2 medians")
      return Figure(subject: subject) {
        try Caller.nanoseconds(load, processes: 2, in: room, for: scale.seconds)
      }
    }
    return alone + library + together + peerFigures(topic, .closed)
  }

  /// The cost of a call from C, which has no closure to call.
  private func libraryFigures(_ topic: String) throws -> [Figure] {
    try unlessMissing {
      [
        try figure(topic, "C, enter and leave", .library, goal: .atMost(12)),
        try figure(
          topic, "C, against Swift's run", .library, against: .times("run, consecutive failures"),
          goal: .atMost(1.3).compared),
      ]
    }
  }

  /// Figures of the C library; none, and a complaint, if it was not built.
  private func unlessMissing(_ figures: () throws -> [Figure]) throws -> [Figure] {
    do {
      return try figures()
    } catch let error as BenchError {
      complain("\(error)")
      return []
    }
  }

  /// The cost of a rejected call.
  func rejectionFigures() throws -> [Figure] {
    let topic = "rejected call"
    let value = "rejection, as a value"
    let library = try unlessMissing {
      [
        try figure(
          topic, "rejection, from C", .libraryRejected, against: .times(value),
          goal: .atMost(1.5).compared)
      ]
    }
    return [
      try figure(
        topic, value, .decided, against: .over("bare CLOCK_BOOTTIME"),
        goal: .atMost(40)),
      try figure(
        topic, "rejection, thrown", .thrown, against: .over("bare CLOCK_BOOTTIME"),
        goal: .atMost(150)),
    ] + library + peerFigures(topic, .rejected)
  }
}

extension Benchmark {
  /// The costs that everything else includes.
  func floorFigures() throws -> [Figure] {
    let topic = "floors"
    let raw = try RawStore(room.file("floor.db"), waiting: .timeout)
    return [
      try figure(topic, "bare closure call", .bare),
      try figure(topic, "bare await", .bareAwait),
      try figure(topic, "bare await, on an actor", .bareActor),
      try figure(topic, "bare atomic addition", .atomic),
      try figure(topic, "bare CLOCK_BOOTTIME", .boot),
      try figure(topic, "bare CLOCK_MONOTONIC_COARSE", .coarse),
      Figure(
        subject: Subject(
          topic: topic, name: "raw prepared SELECT", unit: "ns", samples: "best of 10")
      ) { try bestNanoseconds { count in for _ in 0..<count { try raw.read() } } },
    ]
  }
}
