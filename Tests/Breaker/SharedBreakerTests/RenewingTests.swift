import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Probes that take long and renew their leases.
@Suite struct RenewingTests {
  private static let policy = BreakerPolicy(
    maxFailures: 1, openFor: .seconds(2), probeTimeout: .seconds(30))

  /// A breaker that is due for a probe.
  private func due(_ stage: Stage) throws -> Breaker {
    let breaker = try stage.sharedStore().breaker("api", policy: Self.policy)
    try breaker.trip()
    stage.clock.advance(by: .seconds(2))
    return breaker
  }

  @Test(.timeLimit(.minutes(60)))
  func `a probe that renews its permit closes the breaker two hours later`() throws {
    let stage = try Stage()
    let breaker = try due(stage)
    let permit = try breaker.acquire()
    for _ in 0..<360 {
      stage.clock.advance(by: .seconds(20))
      #expect(try permit.renew())
    }
    let lease = try Database.rows(stage.store, "SELECT id, generation FROM lease")
    #expect(lease == [["1", "3"]])
    #expect(breaker.snapshot().leases.map(\.endsIn) == [.seconds(30)])
    #expect(permit.succeed() == .counted)
    #expect(breaker.state == .closed)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a permit whose time is over cannot be renewed`() throws {
    let stage = try Stage()
    let breaker = try due(stage)
    let permit = try breaker.acquire()
    #expect(try permit.renew(for: .seconds(7_200)))
    stage.clock.advance(by: .seconds(7_199))
    #expect(try permit.renew(for: .seconds(1)))
    stage.clock.advance(by: .seconds(1))
    #expect(try !permit.renew())
    #expect(breaker.state == .open)
    #expect(permit.succeed() == .refused)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the renewal of a normal permit writes nothing`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api", policy: Self.policy)
    try breaker.reset()
    let before = try Database.rows(stage.store, "SELECT * FROM breaker")
    let permit = try breaker.acquire()
    let token = try breaker.acquireToken()
    stage.clock.advance(by: .seconds(7_200))
    #expect(try permit.renew())
    #expect(try store.renew(token))
    #expect(try Database.rows(stage.store, "SELECT * FROM breaker") == before)
    #expect(permit.succeed() == .counted)
  }

  @Test(.timeLimit(.minutes(60)))
  func `any process can renew a token, and none can once its breaker is gone`() throws {
    let stage = try Stage()
    let breaker = try due(stage)
    let token = try breaker.acquireToken()
    let other = stage.sharedStore()
    for _ in 0..<5 {
      stage.clock.advance(by: .seconds(29))
      #expect(try other.renew(token))
    }
    #expect(try other.renew(token, for: .seconds(3_600)))
    stage.clock.advance(by: .seconds(3_599))
    #expect(try other.report(token, .success) == .counted)
    #expect(try !other.renew(token))
    try breaker.trip()
    stage.clock.advance(by: .seconds(2))
    let next = try breaker.acquireToken()
    #expect(try other.delete("api"))
    #expect(try !other.renew(next))
    // Another breaker of that name, whose first probe has the same number.
    try stage.sharedStore().breaker("api", policy: Self.policy).trip()
    stage.clock.advance(by: .seconds(2))
    _ = try stage.sharedStore().breaker("api").acquireToken()
    #expect(try !other.renew(next))
    #expect(try other.snapshot(of: "api")?.leases.count == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a lease can be renewed later if the store cannot be used at first`() throws {
    let stage = try Stage()
    let breaker = try due(stage)
    let permit = try breaker.acquire()
    do {
      let holder = try Holder(stage.store, "BEGIN IMMEDIATE")
      withExtendedLifetime(holder) {
        do {
          try permit.renew()
          Issue.record("a store that is locked was written")
        } catch {}
      }
    }
    stage.clock.advance(by: .seconds(29))
    #expect(try permit.renew())
    stage.clock.advance(by: .seconds(29))
    #expect(permit.succeed() == .counted)
  }

  @Test func `a call may ask for more time than probe-timeout gives its probe`() async throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: Self.policy)
    func expectProbe(_ seconds: Int64) {
      #expect(breaker.snapshot().leases.map(\.endsIn) == [.seconds(seconds)])
    }
    func becomeDue() throws {
      try breaker.trip()
      host.clock.advance(by: .seconds(2))
    }
    try becomeDue()
    try await breaker.run(probeTimeout: .seconds(7_200)) {
      expectProbe(7_200)
      host.clock.advance(by: .seconds(7_199))
    }
    #expect(breaker.state == .closed)
    try becomeDue()
    try await breaker.run(probeTimeout: .seconds(60)) { () async in expectProbe(60) }
    try becomeDue()
    try await breaker.run(timeout: .seconds(50), probeTimeout: .seconds(60)) {
      #expect(breaker.snapshot().leases.map(\.endsIn) == [.seconds(60)])
    }
    // Asking for less time does not shorten what the policy gives.
    try becomeDue()
    try await breaker.run(probeTimeout: .seconds(5)) { expectProbe(30) }
    #expect(breaker.state == .closed)
  }

  @Test func `each attempt of a retried call gets the time that the call asked for`() throws {
    let host = TestHost()
    let policy = BreakerPolicy(
      maxFailures: 1, openFor: .seconds(2), probeCalls: 4, probeFailureRate: 1.0)
    let breaker = try host.store().breaker("api", policy: policy)
    try breaker.trip()
    host.clock.advance(by: .seconds(2))
    var attempts = 0
    try breaker.run(
      retry: .fixed(attempts: 3, delay: .zero), probeTimeout: .seconds(600)
    ) {
      attempts += 1
      #expect(breaker.snapshot().leases.map(\.endsIn) == [.seconds(600)])
      if attempts < 3 { throw SupportError("not yet") }
    }
    #expect(attempts == 3)
  }

  @Test func `a job may ask for more time than probe-timeout gives its probe`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: Self.policy)
    try breaker.trip()
    host.clock.advance(by: .seconds(2))
    let job = BreakerJob(breaker, timeout: .seconds(7_200), probeTimeout: .seconds(7_300)) {
      attempt in
      host.clock.advance(by: .seconds(7_199))
      attempt.success()
    }
    #expect(job.start())
    #expect(breaker.state == .closed)
  }
}
