import TestSupport
import Testing

/// A process that is killed with SIGKILL while it writes for a fleet.
@Suite struct KilledRelayTests {
  /// Everything of which a transaction must leave all or nothing behind.
  private func contents(_ store: String) throws -> [[String]] {
    try Database.rows(
      store,
      "SELECT state, mode, operator_policy, open_until_ns, revision FROM breaker"
        + " UNION ALL SELECT aspect, stamp, host, action, is_in_force FROM fleet_command"
        + " UNION ALL SELECT id, stamp, action, 0, 0 FROM fleet_outbox"
        + " UNION ALL SELECT stamp, epoch, number, entry, 0 FROM fleet"
        + " UNION ALL SELECT count(*), max(id), 0, 0, 0 FROM event")
  }

  private func killAtEveryStep(_ command: String) throws -> [String] {
    var steps: [String] = []
    while true {
      let stage = try Stage()
      let other = try stage.puppets(1, "max-failures=1")[0]
      let writer = try stage.puppets(1, "max-failures=1", options: ["watch"])[0]
      #expect(try writer.ask("claim prod a") == "ok")
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
      // The next relay goes on from what is there.
      #expect(try other.ask("claim prod a") == "ok", "\(answer)")
      #expect(try other.ask("fleet policy 7m") == "ok", "\(answer)")
      #expect(try other.ask("health") == "connected", "\(answer)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command to the fleet, its register and its place in the outbox are all or nothing`()
    throws
  {
    let steps = try killAtEveryStep("fleet trip")
    for step in ["INSERT OR REPLACE", "INSERT INTO fleet_outbox", "UPDATE breaker SET"] {
      #expect(steps.contains { $0.contains(step) }, "\(steps)")
    }
    #expect(steps.last?.hasSuffix("after COMMIT") == true)
  }

  @Test(.timeLimit(.minutes(60)))
  func `news and the position that they were read at are all or nothing`() throws {
    let steps = try killAtEveryStep("news")
    #expect(steps.contains { $0.contains("INSERT OR REPLACE") }, "\(steps)")
    #expect(steps.last?.hasSuffix("after COMMIT") == true)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the position moves only with the last of the transactions that news takes`() throws {
    let stamps = [["0", ""], ["11", ""], ["12", ""], ["13", ""], ["13", "4-0"]]
    var reached = 0
    var steps: [String] = []
    while true {
      let stage = try Stage()
      _ = try stage.puppets(1, "max-failures=1")
      let writer = try stage.puppets(1, "max-failures=1", options: ["watch"])[0]
      #expect(try writer.ask("claim prod a") == "ok")
      try writer.ask("stop-at \(steps.count + 1)")
      let answer = try writer.ask("news each")
      guard answer.hasPrefix("at ") else { break }
      steps.append(answer)
      writer.kill()
      let rows = try Database.rows(stage.store, "SELECT stamp, coalesce(entry, '') FROM fleet")
      let row = try #require(rows.first)
      let found = try #require(stamps.firstIndex(of: row), "\(rows)")
      // Each transaction has all of one piece of news, or nothing.
      #expect((reached...reached + 1).contains(found), "\(answer)")
      reached = found
    }
    #expect(reached >= 3)
  }
}
