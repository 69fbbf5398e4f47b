import TestSupport
import Testing

/// A writer that is killed with SIGKILL.
@Suite struct KilledWriterTests {
  /// Everything of which a transaction on the breaker must leave all or nothing behind.
  private func contents(_ store: String) throws -> [[String]] {
    try Database.rows(
      store,
      "SELECT state, generation, consecutive_failures, failures, trips, revision, last_lease"
        + " FROM breaker UNION ALL SELECT count(*), max(id), 0, 0, 0, 0, 0 FROM event"
        + " UNION ALL SELECT count(*), sum(id), 0, 0, 0, 0, 0 FROM lease")
  }

  /// Kills a process at each step of a command in turn, until the command gets to its end.
  private func killAtEveryStep(
    _ command: String, prepare: (Stage, Puppet) throws -> Void
  ) throws -> [String] {
    var steps: [String] = []
    while true {
      let stage = try Stage()
      let policy = "max-failures=1 open-for=30s probe-timeout=10s"
      let other = try stage.puppets(1, policy)[0]
      try prepare(stage, other)
      let writer = try stage.puppets(1, policy, options: ["watch"])[0]
      try writer.ask("health")
      let before = try contents(stage.store)
      try writer.ask("stop-at \(steps.count + 1)")
      let answer = try writer.ask(command)
      guard answer.hasPrefix("at ") else { return steps }
      steps.append(answer)
      writer.kill()
      let after = try contents(stage.store)
      #expect((after == before) == !answer.hasSuffix("after COMMIT"), "\(answer)")
      #expect(try Database.integrity(stage.store) == "ok", "\(answer)")
      // The lock ended with its holder, so no process has to wait.
      #expect(try other.ask("trip") == "ok", "\(answer)")
      #expect(try other.ask("state") == "open", "\(answer)")
      #expect(try other.ask("health") == "connected", "\(answer)")
      #expect(try other.ask("events").contains("unavailable") == false, "\(answer)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a writer killed at any step of a trip leaves all of it or nothing`() throws {
    let steps = try killAtEveryStep("run fail") { _, _ in }
    #expect(steps.first == "at 1 after BEGIN IMMEDIATE")
    #expect(steps.last?.hasSuffix("after COMMIT") == true)
    for step in ["INSERT INTO event", "UPDATE breaker SET", "commit"] {
      #expect(steps.contains { $0.contains(step) }, "\(steps)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a writer killed at any step of a probe's start leaves all of it or nothing`() throws {
    let steps = try killAtEveryStep("acquire") { stage, other in
      try other.ask("run fail")
      stage.clock.advance(by: .seconds(30))
    }
    #expect(steps.contains { $0.contains("INSERT INTO lease") }, "\(steps)")
    #expect(steps.last?.hasSuffix("after COMMIT") == true)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a writer killed at any step of a reset leaves all of it or nothing`() throws {
    let steps = try killAtEveryStep("reset") { _, other in try other.ask("run fail") }
    #expect(steps.last?.hasSuffix("after COMMIT") == true)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a writer killed at any moment takes no acknowledged failure with it`() throws {
    let stage = try Stage()
    let other = try stage.puppets(1, "max-failures=1000000")[0]
    var acknowledged = 0
    for _ in 0..<rounds(100) {
      let writers = try (0..<8).map { _ in try stage.puppet() }
      for writer in writers { try writer.send("hammer") }
      // Each is killed in the middle of its work, after a random number of reports.
      for writer in writers.shuffled() {
        try writer.process.waitForOutput(.random(in: 1...20))
        writer.kill()
        acknowledged += try writer.process.rest().count { $0 == "." }
      }
      let failures = try Int(Database.value(stage.store, "SELECT failures FROM breaker")) ?? -1
      try #require(failures >= acknowledged)
      // For each writer, at most one report was in the file but not yet acknowledged.
      acknowledged = failures
      #expect(try other.ask("run ok") == "ok 42")
    }
    #expect(try Database.integrity(stage.store) == "ok")
    #expect(try other.ask("health") == "connected")
  }
}
