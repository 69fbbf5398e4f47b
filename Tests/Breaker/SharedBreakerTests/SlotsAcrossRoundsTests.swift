import SharedBreaker
import TestSupport
import Testing

/// Probes that outlive the round in which they were permitted.
@Suite struct SlotsAcrossRoundsTests {
  private func underWay(_ stage: Stage) throws -> String {
    try Database.value(stage.store, "SELECT count(*) || ' ' || max(leases) FROM lease, breaker")
  }

  @Test(.timeLimit(.minutes(60)))
  func `two probes at most are under way when one in each round is slow and one fails`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(6, "max-failures=1 open-for=1s probes=2 probe-timeout=1h")
    #expect(try puppets[0].ask("trip") == "ok")
    var slow = 0
    for round in 0..<5 {
      stage.clock.advance(by: .seconds(1))
      if try puppets[round].ask("acquire") == "probe" { slow += 1 }
      let failing = try puppets[5].ask("acquire")
      #expect(failing.hasPrefix(round == 0 ? "probe" : "rejected half_open"))
      #expect(try underWay(stage) == "2 2")
      // The failing probe ends the round, and the slow one goes on.
      if round > 0 { slow -= 1 }
      #expect(try puppets[round == 0 ? 5 : round].ask("fail") == "counted")
      #expect(try puppets[5].ask("state") == "open")
      #expect(try underWay(stage) == "1 1")
    }
    #expect(slow == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a prober that dies frees the slot of an earlier round at once`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=1 open-for=1s probe-timeout=1h")
    #expect(try puppets[0].ask("trip") == "ok")
    stage.clock.advance(by: .seconds(1))
    #expect(try puppets[0].ask("acquire") == "probe")
    #expect(try puppets[1].ask("trip") == "ok")
    stage.clock.advance(by: .seconds(1))
    #expect(try puppets[1].ask("acquire") == "rejected open 1000")
    #expect(try puppets[1].ask("state") == "open")
    puppets[0].kill()
    #expect(try puppets[1].ask("acquire") == "probe")
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["reset", "succeed"])
  func `a probe of an earlier round keeps its slot in a closed breaker`(how: String) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-failures=1 open-for=1s probes=2 probe-timeout=1h")
    #expect(try puppets[0].ask("trip") == "ok")
    stage.clock.advance(by: .seconds(1))
    #expect(try puppets[0].ask("acquire") == "probe")
    #expect(try puppets[1].ask("acquire") == "probe")
    #expect(try ["ok", "counted"].contains(puppets[1].ask(how)))
    #expect(try puppets[2].ask("state") == "closed")
    #expect(try puppets[2].ask("run ok") == "ok 42")
    #expect(try puppets[2].ask("run fail") == "failed")
    stage.clock.advance(by: .seconds(1))
    let free = how == "reset" ? 0 : 1
    for _ in 0..<free { #expect(try puppets[2].ask("acquire") == "probe") }
    #expect(try puppets[2].ask("acquire").hasPrefix("rejected"))
    #expect(try puppets[0].ask("succeed") == "outdated")
    #expect(try puppets[2].ask("acquire") == "probe")
    #expect(try underWay(stage) == "2 2")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a due breaker without a free slot is open and says when one is free`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker(
      "api", policy: BreakerPolicy(openFor: .seconds(1), probeTimeout: .seconds(60)))
    try breaker.trip()
    stage.clock.advance(by: .seconds(1))
    _ = try breaker.acquireToken()
    try breaker.trip()
    stage.clock.advance(by: .seconds(1))
    let snapshot = breaker.snapshot()
    #expect(snapshot.state == .open)
    #expect(!snapshot.permits)
    #expect(!snapshot.isProbeDue)
    #expect(snapshot.openEndsIn == .zero)
    #expect(snapshot.retryAfter == .seconds(1))
    #expect(snapshot.leases.count == 1)
    stage.clock.advance(by: .seconds(59))
    #expect(breaker.snapshot().isProbeDue)
    #expect(try breaker.acquire().kind == .probe)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a reboot voids the leases of every round`() throws {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker(
      "api", policy: BreakerPolicy(openFor: .seconds(1), probes: 2, probeTimeout: .seconds(3_600)))
    try breaker.trip()
    stage.clock.advance(by: .seconds(1))
    _ = try breaker.acquireToken()
    try breaker.trip()
    stage.clock.advance(by: .seconds(1))
    _ = try breaker.acquireToken()
    #expect(try underWay(stage) == "2 2")
    stage.clock.reboot(after: .seconds(100))
    let after = try stage.sharedStore().breaker("api")
    #expect(after.snapshot().leases.isEmpty)
    #expect(try after.acquireToken().kind == .probe)
    #expect(try after.acquireToken().kind == .probe)
    #expect(throws: BreakerError.self) { try after.acquireToken() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a breaker without leases is written without a look at the lease table`() throws {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker("api", policy: BreakerPolicy(maxFailures: 9))
    try breaker.acquire().fail()
    // A process that trusts the row of the breaker does not find this lease.
    try Database.rows(
      stage.store,
      "INSERT INTO lease (breaker, id, deadline_ns) SELECT id, 1, 9223372036854775807 FROM breaker")
    #expect(breaker.snapshot().leases.isEmpty)
    try breaker.acquire().fail()
    #expect(try Database.value(stage.store, "SELECT count(*) FROM lease") == "1")
  }
}
