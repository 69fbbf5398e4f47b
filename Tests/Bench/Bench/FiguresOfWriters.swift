import SharedBreaker

extension Benchmark {
  /// The cost of recording a failed call, in one process.
  func failureFigures() throws -> [Figure] {
    let topic = "failed call"
    let bare = "raw transaction"
    let raw = try RawStore(room.file("floor.db"), waiting: .timeout)
    try store.connect()
    let pageSize = try RawStore.pageSize(of: room.store)
    let rawPaged = try RawStore(room.file("paged.db"), waiting: .timeout, pageSize: pageSize)
    let breaker = try FailureLoops.breaker("failing", of: store)
    let kinds: [(String, Loop, Comparison?, Goal?)] = [
      (bare, { count in for _ in 0..<count { try raw.increment() } }, nil, nil),
      (
        "raw transaction, pages of \(pageSize) bytes",
        { count in for _ in 0..<count { try rawPaged.increment() } }, .times(bare), nil
      ),
      (
        "failure recorded", FailureLoops.failures(breaker), .times(bare), .atMost(1.3).compared
      ),
    ]
    return kinds.map { name, loop, comparison, goal in
      let subject = Subject(
        topic: topic, name: name, unit: "ns", comparison: comparison, goal: goal,
        samples: "mean of \(scale.writes)")
      return Figure(subject: subject) { try meanNanoseconds(loop, calls: scale.writes) }
    } + peerFigures(topic, .failure)
  }

  /// How much several processes, or several threads of one, record together.
  func writerFigures() -> [Figure] {
    [2, 16].flatMap { processes in
      let topic = "failures of \(processes) processes at once"
      let floor = "raw, the library's waiting, \(processes) processes"
      return writerFigures(
        topic, "raw, SQLite's waiting, \(processes) processes", .rawTimeout, processes)
        + writerFigures(topic, floor, .raw, processes)
        + writerFigures(
          topic, "failures recorded, \(processes) processes", .failure, processes,
          against: .times(floor))
        + (processes == 16 ? peerWriterFigures(topic, processes) : [])
    } + threadFigures()
  }

  private func writerFigures(
    _ topic: String, _ name: String, _ load: Load, _ processes: Int,
    against comparison: Comparison? = nil
  ) -> [Figure] {
    let latest = Latest {
      try Writer.run(load, processes: processes, in: room, for: scale.seconds)
    }
    return writerFigures(
      topic, name, latest, against: comparison,
      hasGoals: comparison != nil && processes == 16)
  }

  /// Throughput, fairness and the longest wait.
  func writerFigures(
    _ topic: String, _ name: String, _ latest: Latest<Writer.Result>,
    against comparison: Comparison? = nil, hasGoals: Bool = false
  ) -> [Figure] {
    func figure(
      _ name: String, _ unit: String, _ comparison: Comparison?, _ goal: Goal?,
      _ value: @escaping () throws -> Double
    ) -> Figure {
      let subject = Subject(
        topic: topic, name: name, unit: unit, comparison: comparison,
        goal: hasGoals ? goal : nil, samples: "\(Digits.short(scale.seconds)) s")
      return Figure(subject: subject, measure: value)
    }
    return [
      figure(name, "/s", comparison, nil) { try latest.renewed().rate },
      figure("  fewest of one, share of the mean", "", nil, .atLeast(1.0 / 3)) {
        try latest.same().fewest
      },
      figure("  longest wait", "ms", nil, .atMost(100)) {
        try latest.same().longestMilliseconds
      },
    ]
  }

  private func threadFigures() -> [Figure] {
    let alone = "failures recorded, 1 thread"
    return [1, 8].map { threads in
      let subject = Subject(
        topic: "failures of threads at once",
        name: threads == 1 ? alone : "failures recorded, \(threads) threads", unit: "/s",
        comparison: threads == 1 ? nil : .times(alone),
        goal: threads == 1 ? nil : .atLeast(1).compared,
        samples: "\(Digits.short(scale.seconds)) s")
      return Figure(subject: subject) {
        try Writer.rate(threads: threads, on: store, for: scale.seconds)
      }
    }
  }
}
