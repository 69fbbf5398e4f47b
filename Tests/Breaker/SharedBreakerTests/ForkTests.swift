import Glibc
import TestSupport
import Testing

/// A child of fork(2), and its parent.
@Suite struct ForkTests {
  private static let policy = "max-failures=1000000 open-for=30s probe-timeout=10s"

  @Test(.timeLimit(.minutes(60)))
  func `a forked child counts what it does once, and so does its parent`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policy)[0]
    #expect(try parent.ask("run fail") == "failed")
    #expect(try parent.ask("fork failures 2") == "failed 2 rejected 0")
    #expect(try parent.ask("run fail") == "failed")
    #expect(try parent.ask("fork fork run fail") == "failed")
    #expect(try parent.ask("snapshot").contains("consecutive=5 trips=0 failures=5"))
    #expect(try parent.ask("health") == "connected")
    #expect(try Database.integrity(stage.store) == "ok")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a forked child does not write what its parent has yet to write`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policy)[0]
    stage.clock.advance(by: .seconds(1))
    #expect(try parent.ask("run ok") == "ok 42")
    for _ in 0..<3 { #expect(try parent.ask("run ok") == "ok 42") }
    #expect(try parent.ask("fork run fail") == "failed")
    #expect(try parent.ask("run fail") == "failed")
    #expect(try stage.puppet().ask("snapshot").contains("failures=2 successes=4"))
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      "max-failures=1000000", "failure-rate=100% window=10s min-calls=1000000",
      "failure-rate=100% last=100 min-calls=100",
    ])
  func `a forked child and its parent count each call of both once`(policy: String) throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, policy)[0]
    #expect(try parent.ask("successes 3") == "ok 3 rejected 0")
    #expect(try parent.ask("fork successes 5") == "ok 5 rejected 0")
    #expect(try parent.ask("successes 2") == "ok 2 rejected 0")
    #expect(try parent.ask("fork failures 2") == "failed 2 rejected 0")
    #expect(try parent.ask("failures 1") == "failed 1 rejected 0")
    let seen = try parent.ask("counts")
    #expect(seen.hasSuffix("totals 10 3 0"))
    #expect(policy.hasPrefix("max") || seen.hasPrefix("window 13 3 "), "\(seen)")
    #expect(try stage.puppets(1, policy)[0].ask("counts") == seen)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a forked child has no descriptor of the store that its parent had opened`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policy)[0]
    #expect(try parent.ask("run fail") == "failed")
    #expect(try Int(parent.ask("descriptors")) ?? 0 >= 3)
    #expect(try parent.ask("fork descriptors") == "0")
    #expect(try parent.ask("run fail") == "failed")
    #expect(try parent.ask("snapshot").contains("failures=2"))
  }

  @Test(.forksBesideThreads, .timeLimit(.minutes(60)))
  func `a forked child has no descriptor with which another thread examines the store`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policy)[0]
    #expect(try parent.ask("run fail") == "failed")
    let forks = max(20, rounds(200))
    #expect(try parent.ask("fork-examining \(forks)") == "children \(forks)")
    #expect(try parent.ask("run fail") == "failed")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a forked child owns none of its parent's permits`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policy)[0]
    #expect(try parent.ask("acquire") == "normal")
    #expect(try parent.ask("fork fail") == "refused")
    #expect(try parent.ask("snapshot").contains("failures=0"))
    #expect(try parent.ask("fail") == "counted")
    #expect(try parent.ask("snapshot").contains("failures=1"))

    #expect(try parent.ask("trip") == "ok")
    stage.clock.advance(by: .seconds(30))
    #expect(try parent.ask("acquire") == "probe")
    #expect(try parent.ask("fork fail") == "refused")
    #expect(try parent.ask("fork succeed") == "refused")
    #expect(try parent.ask("fork ignore") == "refused")
    #expect(try parent.ask("fork acquire").hasPrefix("rejected half_open"))
    #expect(try parent.ask("succeed") == "counted")
    #expect(try parent.ask("state") == "closed")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a forked child that outlives its parent keeps none of the parent's slots`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policy)[0]
    let other = try stage.puppets(1, Self.policy)[0]
    #expect(try parent.ask("trip") == "ok")
    stage.clock.advance(by: .seconds(30))
    #expect(try parent.ask("acquire") == "probe")
    let child = try #require(Int32(try parent.ask("fork-idle")))
    defer { kill(child, SIGKILL) }
    #expect(try other.ask("acquire").hasPrefix("rejected half_open"))
    parent.kill()
    #expect(try other.ask("acquire") == "probe")
    #expect(try other.ask("succeed") == "counted")
    #expect(try other.ask("state") == "closed")
  }

  @Test(.timeLimit(.minutes(60)), arguments: [1, 64, 128])
  func `a descendant of any number of forks cannot report the call of the first process`(
    depth: Int
  ) throws {
    let puppet = try Stage().puppets(1, "max-failures=3")[0]
    #expect(try puppet.ask("run ok") == "ok 42")
    #expect(try puppet.ask("run-forked \(depth)") == "ok")
    #expect(try puppet.ask("snapshot").contains("successes=2"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a forked child that ends leaves its own slot to the next caller`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policy)[0]
    #expect(try parent.ask("trip") == "ok")
    stage.clock.advance(by: .seconds(30))
    #expect(try parent.ask("fork acquire") == "probe")
    #expect(try parent.ask("acquire") == "probe")
    #expect(try parent.ask("succeed") == "counted")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a forked child and its parent see each other's changes at once`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, "max-failures=3")[0]
    for round in 0..<20 {
      #expect(try parent.ask("fork trip") == "ok")
      try #require(try parent.ask("run ok").hasPrefix("rejected open"), "round \(round)")
      #expect(try parent.ask("fork reset") == "ok")
      try #require(try parent.ask("fork run ok") == "ok 42", "round \(round)")
      try #require(try parent.ask("run ok") == "ok 42", "round \(round)")
    }
  }

  @Test(.forksBesideThreads, .timeLimit(.minutes(60)))
  func `a child forked while other threads use the breaker does not hang`() throws {
    let stage = try Stage()
    let parent = try stage.puppets(1, Self.policy)[0]
    // Each type that a child will need is created before there are threads.
    #expect(try parent.ask("run fail") == "failed")
    #expect(try parent.ask("health") == "connected")
    let forks = max(10, rounds(100))
    let words = try parent.ask("fork-hammer 4 \(forks)").split(separator: " ")
    try #require(words.count == 4)
    #expect(words[1] == String(forks))
    let failures = try #require(Int(words[3]))
    #expect(failures > 0)
    let stored = try Database.value(stage.store, "SELECT failures FROM breaker")
    #expect(stored == String(1 + failures + forks))
    #expect(try Database.integrity(stage.store) == "ok")
    #expect(try parent.ask("health") == "connected")
  }

  @Test(.forksBesideThreads, .timeLimit(.minutes(60)))
  func `a process can fork while other threads release their stores`() throws {
    let parent = try Stage().puppet()
    #expect(try parent.ask("connect") == "ok")
    let forks = max(10, rounds(500))
    #expect(try parent.ask("fork-churn 4 \(forks)") == "children \(forks)")
  }

  @Test(.forksBesideThreads, .timeLimit(.minutes(60)))
  func `a forked child goes on alone while other threads release stores that were alone`() throws {
    let parent = try Stage().puppet()
    let forks = max(10, rounds(500))
    #expect(try parent.ask("fork-alone 4 \(forks)") == "children \(forks)")
  }
}
