import TestSupport
import Testing

@Suite struct `Counters that are taken away from programs that run` {
  static let policies = ["max-failures=5", "failure-rate=50% window=1m min-calls=4 open-for=30s"]

  private func successes(_ puppet: Puppet) throws -> Int? {
    try puppet.ask("counts").split(separator: " ").compactMap { Int($0) }.dropFirst(2).first
  }

  @Test(.timeLimit(.minutes(10)), arguments: policies)
  func `are followed by new ones within a second, with all that was counted`(
    policy: String
  ) throws {
    let stage = try Stage()
    let running = try stage.puppets(3, policy)
    try running.ask("successes 100")
    try Files.rename(stage.store + "-counters", to: stage.store + "-counters.aside")
    let before = try Files.read(stage.store + "-counters.aside")
    for round in 1...3 {
      stage.clock.advance(by: .seconds(2))
      #expect(try running.ask("successes 1").allSatisfy { $0 == "ok 1 rejected 0" })
      let late = try stage.puppet()
      #expect(try successes(late) == 300 + 3 * round)
    }
    #expect(try Files.read(stage.store + "-counters.aside") == before)
    #expect(try running.ask("health").allSatisfy { $0 == "connected" })
  }

  @Test(.timeLimit(.minutes(10)))
  func `may have been cut off before`() throws {
    let stage = try Stage()
    let running = try stage.puppets(2, Self.policies[0])
    try running.ask("successes 100")
    // Its first page is left, with the counters of the breaker, and none behind it.
    try Files.truncate(stage.store + "-counters", to: 65_536 + 4_096)
    try Files.rename(stage.store + "-counters", to: stage.store + "-counters.aside")
    stage.clock.advance(by: .seconds(2))
    #expect(try running.ask("successes 1") == ["ok 1 rejected 0", "ok 1 rejected 0"])
    #expect(try successes(try stage.puppet()) == 202)
  }

  @Test(.timeLimit(.minutes(10)))
  func `are judged together with those who start`() throws {
    let stage = try Stage()
    let running = try stage.puppets(2, Self.policies[1])
    try running.ask("successes 100")
    Files.removeAll(stage.store + "-counters")
    stage.clock.advance(by: .seconds(2))
    try running.ask("successes 1")
    let late = try stage.puppets(1, Self.policies[1])[0]
    #expect(try late.ask("failures 150") == "failed 150 rejected 0")
    #expect(try running.ask("state") == ["closed", "closed"])
  }
}
