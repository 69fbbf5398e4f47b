import TestSupport
import Testing

/// Counters that are deleted, overwritten or out of reach.
@Suite struct LostCountersTests {
  static let rate = "failure-rate=50% window=10s min-calls=2 open-for=30s"

  private func counts(_ puppet: Puppet) throws -> [Int] {
    try puppet.ask("counts").split(separator: " ").compactMap { Int($0) }
  }

  private func file(_ stage: Stage) -> String { stage.store + "-counters" }

  @Test(.timeLimit(.minutes(60)))
  func `lost counters are found again before a failure is judged without them`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, Self.rate)[0]
    try puppet.ask("successes 5")
    Files.removeAll(file(stage))
    let late = try stage.puppets(1, Self.rate)[0]
    try late.ask("successes 1000")
    #expect(try puppet.ask("run fail") == "failed")
    #expect(try puppet.ask("state") == "closed")
    #expect(try counts(puppet)[0] >= 1_000)
  }

  @Test(.timeLimit(.minutes(60)))
  func `lost counters are found again by a process that only reads`() throws {
    let stage = try Stage()
    let reader = try stage.puppet()
    let puppet = try stage.puppets(1, Self.rate)[0]
    try puppet.ask("successes 5")
    #expect(try counts(reader)[2] == 5)
    Files.removeAll(file(stage))
    let late = try stage.puppets(1, Self.rate)[0]
    try late.ask("successes 1000")
    let seen = try counts(late)
    #expect(seen[2] >= 1_000)
    #expect(try counts(reader) == seen)
  }

  @Test(.timeLimit(.minutes(60)))
  func `counters overwritten as if they had grown do not make a failure open the breaker`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, "failure-rate=50% window=10s min-calls=4")[0]
    try puppet.ask("successes 200")
    stage.clock.advance(by: .seconds(20))
    try puppet.ask("failures 3")
    try puppet.ask("successes 100")
    // More than the row has taken in, and less than the mark of their bucket.
    try CounterWords(ofStore: stage.store).setSuccesses(ofBreaker: 1, to: 1 << 40 | 150)
    #expect(try puppet.ask("run fail") == "failed")
    #expect(try puppet.ask("state") == "closed")
  }

  static let damages: [UInt64] = [
    0, 1, 1 << 40 | 100_003, 1 << 52 | 100_003, 1 << 60, 1 << 63, .max,
  ]

  @Test(.timeLimit(.minutes(60)), arguments: [rate, "failure-rate=50% last=20", "max-failures=5"])
  func `overwritten counters open no breaker and are used again`(policy: String) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, policy)
    try puppets.ask("successes 1")
    for damage in Self.damages {
      try puppets[0].ask("successes 100")
      try CounterWords(ofStore: stage.store).setSuccesses(ofBreaker: 1, to: damage)
      #expect(try puppets[1].ask("successes 100") == "ok 100 rejected 0")
      #expect(try puppets[0].ask("run fail") == "failed", "\(damage)")
      // The window starts over, perhaps with the failure alone.
      #expect(try puppets[0].ask("state") == "closed", "\(damage)")
      let before = try counts(puppets[1])
      #expect(try puppets.ask("successes 50").allSatisfy { $0 == "ok 50 rejected 0" })
      #expect(try counts(puppets[0])[2] == before[2] + 100, "\(damage)")
      #expect(before[2] >= 0 && before[2] < 1 << 53, "\(damage)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `counters are not lost by a change of policy that is never committed`() throws {
    for step in 1...100 {
      let stage = try Stage()
      let puppet = try stage.puppets(1, Self.rate)[0]
      try puppet.ask("successes 10")
      let operator_ = try Puppet(on: stage, ["watch"])
      try operator_.ask("health")
      try operator_.ask("stop-at \(step)")
      let answer = try operator_.ask("policy window 20s")
      guard answer.hasPrefix("at "), !answer.hasSuffix("after COMMIT") else {
        #expect(step > 3)
        return
      }
      operator_.kill()
      try puppet.ask("successes 1000")
      #expect(try counts(puppet)[0] == 1_010, "\(answer)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a failure is judged with the successes counted after the counters were deleted`() throws {
    let stage = try Stage()
    let failing = try stage.puppets(1, Self.rate)[0]
    let busy = try stage.puppets(1, Self.rate)[0]
    let asked = [failing, busy]
    try asked.ask("successes 1")
    try asked.ask("name other")
    try asked.ask("open \(Self.rate)")
    try asked.ask("successes 5")
    #expect(try failing.ask("acquire") == "normal")
    Files.removeAll(file(stage))
    // Another breaker moves to a new file, and one of the two moves with it.
    let late = try stage.puppets(1, Self.rate)[0]
    try late.ask("successes 10")
    try busy.ask("name api")
    try busy.ask("successes 1")
    try busy.ask("name other")
    try busy.ask("successes 1000")
    #expect(try failing.ask("fail") == "counted")
    let seen = try counts(failing)
    #expect(seen[0] > 1_000, "\(seen)")
    #expect(try busy.ask("state") == "closed")
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs root, to become another user"))
  func `a process that cannot use the counters does not judge by what is left`() throws {
    let stage = try Stage()
    let policy = "failure-rate=40% window=10s min-calls=4 open-for=30s"
    try Files.makeDirectory(stage.directory.file("state"))
    let seeing = try stage.puppets(1, policy)[0]
    try seeing.ask("successes 5")
    for suffix in ["", "-wal", "-shm"] { try Files.changeMode(stage.store + suffix, to: 0o666) }
    let blind = try stage.puppets(1, policy, options: ["user=nobody"])[0]
    for round in 0..<10 {
      #expect(try seeing.ask("failures 3") == "failed 3 rejected 0", "\(round)")
      #expect(try seeing.ask("successes 100") == "ok 100 rejected 0", "\(round)")
      #expect(try blind.ask("run fail") == "failed", "\(round)")
      #expect(try seeing.ask("successes 10") == "ok 10 rejected 0", "\(round)")
    }
    #expect(try seeing.ask("state") == "closed")
    #expect(try counts(seeing).dropFirst(2) == [1_105, 40, 0])
  }
}
