import BenchReport

extension Bench {
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
