import SharedBreaker
import SharedBreakerTesting
import Testing

@Suite struct PolicyPresetTests {
  let host = TestHost()

  private func fail(_ breaker: Breaker, times: Int) {
    for _ in 0..<times { #expect(throws: Refused.self) { try breaker.run { throw Refused() } } }
  }

  @Test(arguments: [
    BreakerPolicy.http, .database, .localService, .device, .scheduledJob,
  ])
  func `a preset policy is valid and grows its open time up to a limit`(policy: BreakerPolicy)
    throws
  {
    try policy.validate()
    let breaker = try host.store().breaker("api", policy: policy)
    try breaker.trip()
    for _ in 0..<30 {
      host.clock.advance(by: try #require(breaker.snapshot().retryAfter))
      fail(breaker, times: 1)
    }
    let longest = try #require(policy.openMax)
    #expect(try #require(breaker.snapshot().retryAfter) <= longest)
    #expect(try #require(breaker.snapshot().retryAfter) * 2 > longest)
  }

  @Test func `the HTTP preset opens at half of 20 calls or at 10 failures in a row`() throws {
    let busy = try host.store().breaker("busy", policy: .http)
    for _ in 0..<9 {
      try busy.run {}
      fail(busy, times: 1)
    }
    try busy.run {}
    #expect(busy.state == .closed)
    fail(busy, times: 1)
    #expect(busy.state == .open)
    let quiet = try host.store().breaker("quiet", policy: .http)
    for _ in 0..<10 {
      #expect(quiet.state == .closed)
      fail(quiet, times: 1)
      host.clock.advance(by: .seconds(60))
    }
    #expect(!quiet.snapshot().permits || quiet.snapshot().isProbeDue)
    host.clock.advance(by: .seconds(600))
    try quiet.run {}
    #expect(quiet.state == .halfOpen)
    try quiet.run {}
    #expect(quiet.state == .closed)
  }

  @Test func `the device preset counts a burst of failures as one`() throws {
    let breaker = try host.store().breaker("sensor", policy: .device)
    for _ in 0..<3 {
      #expect(breaker.state == .closed)
      fail(breaker, times: 1)
      #expect(breaker.snapshot().consecutiveFailures <= 3)
      if breaker.state == .closed { fail(breaker, times: 5) }
      host.clock.advance(by: .seconds(1))
    }
    #expect(breaker.state == .open)
  }

  @Test func `the scheduled job preset gives its probe an hour`() throws {
    let breaker = try host.store().breaker("backup", policy: .scheduledJob)
    fail(breaker, times: 3)
    host.clock.advance(by: .seconds(900))
    try breaker.run { host.clock.advance(by: .seconds(3_599)) }
    #expect(breaker.state == .closed)
  }
}
