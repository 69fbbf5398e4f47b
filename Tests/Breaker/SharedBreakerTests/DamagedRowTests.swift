import TestSupport
import Testing

private let numbers: [Int64] = [.max, .min + 1, -1]

/// A row with numbers that no process wrote.
@Suite struct DamagedRowTests {
  private static let columns = [
    "generation", "consecutive_failures", "growth", "trips", "last_lease", "probe_successes",
    "probe_failures", "successes", "failures", "ignored", "rejections", "slow", "would_reject",
    "revision", "era", "open_until_ns", "open_length_ns", "counters_key", "counted_successes",
    "counted_rejections", "suspected_at_ns", "is_open_time_named", "usual_probe_ns",
    "busy", "counted_busy", "lost_calls",
  ]

  /// Everything that a process can do with a breaker.
  private func use(_ puppet: Puppet, on stage: Stage) throws {
    for command in ["run fail", "run ok", "snapshot", "trip", "run ok", "snapshot"] {
      try puppet.ask(command)
    }
    stage.clock.advance(by: .seconds(60))
    for command in ["acquire", "acquire", "fail", "snapshot"] { try puppet.ask(command) }
    stage.clock.advance(by: .seconds(600_000))
    for command in ["acquire", "succeed", "run fail", "reset", "snapshot"] {
      try puppet.ask(command)
    }
    #expect(try puppet.ask("state") == "closed")
    #expect(try puppet.ask("health") == "connected")
  }

  @Test(.timeLimit(.minutes(60)), arguments: 0..<3, numbers)
  func `a row with one impossible number neither ends nor blocks a process`(
    state: Int, number: Int64
  ) throws {
    for column in Self.columns where column != "generation" || number > 0 {
      let stage = try Stage()
      let puppet = try stage.puppets(1, "max-failures=2 open-multiplier=1 open-for=30s")[0]
      #expect(try puppet.ask("run fail") == "failed")
      try Database.rows(
        stage.store, "UPDATE breaker SET state = \(state), \(column) = \(number)")
      do {
        try use(puppet, on: stage)
      } catch {
        Issue.record("\(column) = \(number) in state \(state): \(error)")
      }
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: 0..<3, numbers)
  func `a row with only impossible numbers neither ends nor blocks a process`(
    state: Int, number: Int64
  ) throws {
    let stage = try Stage()
    let policy = "failure-rate=50% last=10 probe-calls=4 probe-failure-rate=50%"
    let puppet = try stage.puppets(1, policy)[0]
    #expect(try puppet.ask("run fail") == "failed")
    let numbers = Self.columns.dropFirst().map { ", \($0) = \(number)" }.joined()
    let generation = number > 0 ? number : 1
    try Database.rows(
      stage.store, "UPDATE breaker SET state = \(state), generation = \(generation)\(numbers)")
    try use(puppet, on: stage)
  }
}
