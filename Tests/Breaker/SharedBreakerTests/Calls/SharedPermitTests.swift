import SharedBreaker
import SharedBreakerTesting
import Testing

/// A permit that can be kept anywhere and is used once all the same.
@Suite struct SharedPermitTests {
  private let host = TestHost()
  private let breaker: Breaker

  init() throws {
    breaker = try host.store().breaker(
      "api", policy: BreakerPolicy(maxFailures: 1, openFor: .seconds(10)))
  }

  private func probe() throws -> SharedPermit {
    try breaker.trip()
    host.clock.advance(by: .seconds(10))
    return try breaker.acquire().shared()
  }

  @Test func `a permit can be kept in a dictionary and in closures`() throws {
    var permits: [Int: SharedPermit] = [:]
    for number in 0..<3 { permits[number] = try breaker.acquire().shared() }
    let reports = permits.values.map { permit in { permit.report(.success) } }
    #expect(reports.map { $0() } == [.counted, .counted, .counted])
    #expect(breaker.snapshot().totals.successes == 3)
  }

  @Test func `only the first report of a shared permit counts`() throws {
    let permit = try probe()
    #expect(permit.kind == .probe)
    #expect(permit.report(.success) == .counted)
    #expect(permit.report(.failure(error: "late")) == .refused)
    #expect(breaker.state == .closed)
    #expect(breaker.snapshot().totals.failures == 0)
  }

  @Test func `a shared permit reports in a word, once, as a permit does`() throws {
    #expect(try breaker.acquire().shared().succeed(elapsed: .seconds(1)) == .counted)
    #expect(try breaker.acquire().shared().ignore() == .counted)
    let failing = try breaker.acquire().shared()
    #expect(failing.fail(error: "down") == .counted)
    #expect(failing.succeed() == .refused)
    #expect(failing.ignore() == .refused)
    let totals = breaker.snapshot().totals
    #expect([totals.successes, totals.ignored, totals.failures] == [1, 1, 1])
    #expect(breaker.snapshot().lastError == "down")
  }

  @Test func `a permit can give its probe more time than the policy does`() throws {
    func due() throws {
      try breaker.reset()
      try breaker.trip()
      host.clock.advance(by: .seconds(10))
    }
    try due()
    let long = try breaker.acquire(probeTimeout: .seconds(90)).shared()
    host.clock.advance(by: .seconds(89))
    #expect(long.succeed() == .counted)
    try due()
    guard case .permitted(let permit) = try breaker.decide(probeTimeout: .seconds(90)) else {
      Issue.record("the probe was rejected")
      return
    }
    host.clock.advance(by: .seconds(89))
    #expect(permit.succeed() == .counted)
    try due()
    let token = try breaker.acquireToken(probeTimeout: .seconds(90))
    host.clock.advance(by: .seconds(89))
    #expect(try host.store().report(token, .success) == .counted)
    // A time that is shorter than the policy's does not count.
    try due()
    let short = try breaker.acquire(probeTimeout: .seconds(1)).shared()
    host.clock.advance(by: .seconds(29))
    #expect(short.succeed() == .counted)
  }

  @Test func `a permit that goes away without a report frees its slot`() throws {
    var permit: SharedPermit? = try probe()
    #expect(breaker.snapshot().leases.count == 1)
    _ = permit
    permit = nil
    #expect(breaker.snapshot().leases.isEmpty)
    #expect(breaker.snapshot().totals.ignored == 1)
  }

  @Test func `the lease of a probe can be renewed until it has reported`() throws {
    let permit = try probe()
    for _ in 0..<3 {
      host.clock.advance(by: .seconds(20))
      #expect(try permit.renew())
    }
    #expect(permit.report(.success) == .counted)
    #expect(try !permit.renew())
  }

  @Test func `a permit reports an outcome as a value`() throws {
    #expect(try breaker.acquire().report(.ignored) == .counted)
    #expect(try breaker.acquire().report(.failure(error: "down")) == .counted)
    #expect(breaker.state == .open)
    #expect(breaker.snapshot().lastError == "down")
  }
}
