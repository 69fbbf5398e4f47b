import TestSupport
import Testing

@Suite struct SharedCountsTests {
  /// Policies with conditions that are never met.
  static let policies = [
    "max-failures=1000000", "failure-rate=100% window=10s min-calls=1000000",
    "failure-rate=100% last=100 min-calls=100",
  ]

  private func counts(_ puppet: Puppet) throws -> [Int] {
    try puppet.ask("counts").split(separator: " ").compactMap { Int($0) }
  }

  @Test(.timeLimit(.minutes(60)), arguments: policies)
  func `every process sees the sum of all counts without a commit`(policy: String) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(8, policy)
    try puppets.ask("successes 1")
    // The others read what the first process has written, before the files are compared.
    try puppets.ask("state")
    let log = try Files.read(stage.store + "-wal")
    let file = try Files.read(stage.store)
    let each = rounds(20_000)
    #expect(try puppets.ask("successes \(each)").allSatisfy { $0 == "ok \(each) rejected 0" })
    #expect(try Files.read(stage.store + "-wal") == log)
    #expect(try Files.read(stage.store) == file)
    let sum = 8 * (each + 1)
    for puppet in puppets {
      let counts = try counts(puppet)
      #expect(counts[2] == sum)
      if policy.contains("window") { #expect(counts[0] == sum) }
      if policy.contains("last") { #expect(counts[0] == 100) }
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: policies)
  func `the shared counts lose nothing while others fail at the same time`(policy: String) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(4, policy)
    let each = rounds(4_000)
    for puppet in puppets[..<2] { try puppet.send("successes \(each)") }
    for puppet in puppets[2...] { try puppet.send("mixed \(each) 10") }
    for puppet in puppets { #expect(try puppet.answer().hasPrefix("ok ")) }
    let failures = 2 * (each / 10)
    for puppet in puppets {
      let counts = try counts(puppet)
      #expect(counts[2] == 4 * each - failures)
      #expect(counts[3] == failures)
      if policy.contains("window") { #expect(counts[0] == 4 * each) }
      if policy.contains("window") { #expect(counts[1] == failures) }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the window holds the calls of all processes while time goes by`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(4, Self.policies[1])
    let each = rounds(2_000)
    for _ in 0..<8 {
      for puppet in puppets[..<2] { try puppet.send("successes \(each)") }
      for puppet in puppets[2...] { try puppet.send("mixed \(each) 10") }
      // Many buckets begin while all processes count, and none of them leaves the window.
      for _ in 0..<10 { stage.clock.advance(by: .milliseconds(100)) }
      for puppet in puppets { #expect(try puppet.answer().hasPrefix("ok ")) }
    }
    let failures = 8 * 2 * (each / 10)
    for puppet in puppets {
      let counts = try counts(puppet)
      #expect(counts == [8 * 4 * each, failures, 8 * 4 * each - failures, failures, 0])
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: policies)
  func `the shared counts survive what operators do meanwhile`(policy: String) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, policy)
    let each = rounds(20_000)
    try puppets.ask("successes 1")
    let steering = try stage.puppet()
    for puppet in puppets { try puppet.send("successes \(each)") }
    for round in 0..<5 {
      #expect(try steering.ask("reset") == "ok")
      #expect(try steering.ask("force forced_closed") == "ok")
      if policy.contains("window") {
        #expect(try steering.ask("policy window \(round + 1)s") == "ok")
      }
      #expect(try steering.ask("force observe") == "ok")
      #expect(try steering.ask("force automatic") == "ok")
    }
    for puppet in puppets { #expect(try puppet.answer() == "ok \(each) rejected 0") }
    for puppet in puppets { try puppet.ask("connect") }
    for puppet in puppets { #expect(try counts(puppet)[2] == 3 * (each + 1)) }
  }

  @Test(.timeLimit(.minutes(60)), arguments: policies)
  func `the shared counts outlive the processes that counted`(policy: String) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, policy)
    try puppets.ask("successes 1")
    #expect(try puppets.ask("successes 500").count == 3)
    for puppet in puppets[..<2] { puppet.kill() }
    #expect(try counts(puppets[2])[2] == 1_503)
    puppets[2].kill()
    let late = try stage.puppet()
    #expect(try counts(late)[2] == 1_503)
    #expect(try late.ask("run fail") == "failed")
    #expect(try Database.value(stage.store, "SELECT successes FROM breaker") == "1503")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the shared counts include rejections`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-failures=1 open-for=30s")
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(
      try puppets.ask("successes 200").allSatisfy { $0 == "ok 0 rejected 200" })
    #expect(try counts(puppets[1])[4] == 600)
  }

  @Test(.timeLimit(.minutes(60)))
  func `each side of a fork counts its calls once`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policies[1])[0]
    let other = try stage.puppets(1, Self.policies[1])[0]
    #expect(try parent.ask("successes 10") == "ok 10 rejected 0")
    #expect(try parent.ask("fork successes 20") == "ok 20 rejected 0")
    #expect(try parent.ask("fork fork successes 30") == "ok 30 rejected 0")
    #expect(try parent.ask("successes 40") == "ok 40 rejected 0")
    #expect(try counts(other) == [100, 0, 100, 0, 0])
    #expect(try counts(parent) == [100, 0, 100, 0, 0])
  }
}
