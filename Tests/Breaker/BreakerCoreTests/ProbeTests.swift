import Testing

@testable import BreakerCore

@Suite struct ProbeTests {
  @Test(arguments: [1, 2, 5])
  func `the breaker closes with the Nth successful probe`(needed: Int) {
    var bench = Bench(BreakerPolicy(successesToClose: needed))
    bench.becomeDue()
    for _ in 1..<needed {
      bench.call(.success)
      #expect(bench.state == .halfOpen)
    }
    bench.call(.success)
    #expect(bench.state == .closed)
    let reason = needed == 1 ? "the probe succeeded" : "\(needed) probes succeeded"
    #expect(bench.events.last?.reason == reason)
  }

  @Test func `one failed probe opens the breaker again, whatever succeeded before`() {
    var bench = Bench(BreakerPolicy(successesToClose: 5))
    bench.becomeDue()
    for _ in 0..<4 { bench.call(.success) }
    bench.call(.failure())
    #expect(bench.events.last?.reason == "the probe failed")
    bench.advance(by: .seconds(30))
    for _ in 0..<4 { bench.call(.success) }
    #expect(bench.state == .halfOpen)
  }

  /// Of four probes at 50 %, two failures open the breaker and three successes close it.
  @Test(arguments: [
    ("SSS", BreakerState.closed), ("FF", .open), ("SFSS", .closed), ("SFSF", .open),
    ("FSF", .open), ("SSF", .halfOpen), ("FIIS", .halfOpen), ("FT", .open), ("TSSS", .closed),
  ])
  func `probe-calls are judged as soon as the outcome of their rate is certain`(
    calls: String, expected: BreakerState
  ) {
    var bench = Bench(BreakerPolicy(probeCalls: 4, probeFailureRate: 0.5))
    bench.becomeDue()
    for call in calls {
      let probe = bench.permit()
      #expect(bench.state == .halfOpen)
      switch call {
      case "S": bench.report(.success, for: probe)
      case "F": bench.report(.failure(), for: probe)
      case "I": bench.report(.ignored, for: probe)
      default: bench.advance(by: .seconds(30))
      }
    }
    if calls.hasSuffix("T") { _ = bench.request() }
    #expect(bench.state == expected)
    let counted = bench.record.probeSuccesses + bench.record.probeFailures
    #expect((counted > 0) == (expected == .halfOpen))
  }

  @Test(arguments: [
    (1, 1.0, 1, 1), (10, 0.1, 10, 1), (10, 1.0, 1, 10), (10, 0.11, 9, 2), (100, 0.07, 94, 7),
    (3, 0.333_333, 3, 1), (3, 0.333_334, 2, 2), (1_000_000, 0.000_001, 1_000_000, 1),
  ])
  func `the successes that close and the failures that open add up to probe-calls plus one`(
    calls: Int, rate: Double, successes: Int, failures: Int
  ) {
    let policy = BreakerPolicy(probeCalls: calls, probeFailureRate: BreakerPolicy.Rate(rate))
    for (outcome, needed, expected) in [
      (CallOutcome.success, successes, BreakerState.closed), (.failure(), failures, .open),
    ] {
      var bench = Bench(policy)
      bench.becomeDue()
      let probe = bench.permit()
      let before = Int64(max(0, needed - 2))
      if outcome == .success { bench.record.probeSuccesses = before }
      if outcome != .success { bench.record.probeFailures = before }
      bench.report(outcome, for: probe)
      if needed > 1 {
        #expect(bench.state == .halfOpen)
        bench.call(outcome)
      }
      #expect(bench.state == expected)
    }
    #expect(successes + failures == calls + 1)
  }

  @Test func `no more probes start than probe-calls still requires`() {
    var bench = Bench(BreakerPolicy(probes: 9, probeCalls: 4, probeFailureRate: 0.5))
    bench.becomeDue()
    bench.call(.success)
    #expect([bench.permit(), bench.permit(), bench.permit()].allSatisfy { $0 != nil })
    #expect(bench.permit() == nil)
    #expect(bench.record.leases.count == 3)
  }

  @Test(arguments: [CallOutcome.permanentFailure(), .failure(opensFor: .seconds(60))])
  func `a probe's permanent failure, or one with an open time, opens the breaker at once`(
    outcome: CallOutcome
  ) {
    var bench = Bench(BreakerPolicy(probeCalls: 100, probeFailureRate: 1.0))
    bench.becomeDue()
    bench.call(outcome)
    #expect(bench.state == .open)
  }

  @Test func `a failed probe lengthens the streak of failures, and a successful one ends it`() {
    var bench = Bench(BreakerPolicy(maxFailures: 2, successesToClose: 3))
    bench.calls(2, .failure())
    bench.advance(by: .seconds(30))
    bench.call(.failure())
    #expect(bench.record.consecutiveFailures == 3)
    bench.advance(by: .seconds(30))
    bench.call(.success)
    #expect(bench.record.consecutiveFailures == 0)
    #expect(bench.record.streakStartedAt == nil)
  }

  @Test func `the history says why a breaker opened`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, probeCalls: 2, probeFailureRate: 0.5))
    bench.call(.failure())
    bench.advance(by: .seconds(30))
    bench.call(.failure())
    bench.advance(by: .seconds(30))
    bench.call(.failure(opensFor: .seconds(90)))
    #expect(
      bench.events.map(\.reason) == [
        "1 consecutive failure", "the open time is over", "1 probe failed",
        "the open time is over", "a failure that named its open time, 90s",
      ])
  }
}
