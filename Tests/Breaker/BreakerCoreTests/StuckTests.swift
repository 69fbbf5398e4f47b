import Testing

@testable import BreakerCore

/// A half-open breaker never gets stuck: whatever happens, some caller becomes a probe in the end.
@Suite struct StuckTests {
  @Test(arguments: [1, 2, 3, 4, 9], [1, 2, 3, 5, 9])
  func `a breaker can still close or open after probe-calls is lowered midway`(
    made: Int, calls: Int
  ) {
    for outcome in [CallOutcome.success, .failure()] {
      var bench = Bench(BreakerPolicy(probeCalls: 20, probeFailureRate: 0.5))
      bench.becomeDue()
      for number in 0..<made { bench.call(number.isMultiple(of: 2) ? .success : .failure()) }
      #expect(bench.state == .halfOpen)
      bench.policy.probeCalls = calls
      var rounds = 0
      while bench.state == .halfOpen, rounds < 20 {
        #expect(bench.call(outcome) == .counted)
        rounds += 1
      }
      #expect(bench.state == (outcome == .success ? .closed : .open))
    }
  }

  @Test func `a new probe waits for those under way after probes is lowered midway`() {
    var bench = Bench(BreakerPolicy(probes: 3, successesToClose: 9))
    bench.becomeDue()
    let probes = [bench.permit(), bench.permit(), bench.permit()]
    bench.policy.probes = 1
    for probe in probes {
      #expect(bench.request().rejection != nil)
      bench.report(.success, for: probe)
    }
    #expect(bench.permit()?.kind == .probe)
    #expect(bench.request().rejection != nil)
  }

  @Test func `a breaker goes by successes-to-close after probe-calls is dropped midway`() {
    var bench = Bench(BreakerPolicy(probeCalls: 9, probeFailureRate: 1.0))
    bench.becomeDue()
    bench.call(.failure())
    bench.policy = BreakerPolicy()
    bench.call(.success)
    #expect(bench.state == .closed)
  }

  @Test(arguments: [BreakerMode.forcedOpen, .forcedClosed])
  func `a probe that is lost or late under a forced mode changes no state and frees its slot`(
    mode: BreakerMode
  ) {
    for isGone in [false, true] {
      var bench = Bench()
      bench.becomeDue()
      _ = bench.permit(for: .process(2))
      bench.set(mode, for: .seconds(60))
      bench.gone = isGone ? [.process(2)] : []
      bench.advance(by: .seconds(isGone ? 1 : 30))
      _ = bench.request()
      #expect(bench.state == .halfOpen)
      #expect(bench.record.leases.isEmpty)
      #expect(bench.record.totals.failures == (isGone ? 0 : 1))
      bench.advance(by: .seconds(60))
      #expect(bench.permit()?.kind == .probe)
    }
  }

  @Test func `a probe whose deadline passes after a forced mode has run out is judged`() {
    var bench = Bench()
    bench.becomeDue()
    _ = bench.permit()
    bench.set(.forcedOpen, for: .seconds(30))
    bench.advance(by: .seconds(30))
    #expect(bench.look.state == .open)
    #expect(bench.look.mode.mode == .automatic)
    bench = Bench()
    bench.becomeDue()
    _ = bench.permit()
    bench.set(.forcedOpen, for: .seconds(30) + .nanosecond)
    bench.advance(by: .seconds(31))
    #expect(bench.look.state == .halfOpen)
    #expect(bench.look.leases.isEmpty)
  }

  @Test func `a probe that reports under a forced mode frees its slot`() {
    var bench = Bench()
    bench.becomeDue()
    let probe = bench.permit()
    bench.set(.forcedClosed)
    #expect(bench.report(.success, for: probe) == .outdated)
    bench.set(.automatic)
    #expect(bench.state == .halfOpen)
    #expect(bench.permit()?.kind == .probe)
  }

  @Test(arguments: [Duration.zero, .seconds(1), .seconds(29), .seconds(30), .seconds(99)])
  func `the next caller probes or finds the breaker open after every prober has vanished`(
    after: Duration
  ) {
    for isGone in [false, true] {
      var bench = Bench(BreakerPolicy(openFor: .seconds(5), probes: 3))
      bench.becomeDue()
      for number in 2...4 { _ = bench.permit(for: .process(number)) }
      if isGone { bench.gone = [.process(2), .process(3), .process(4)] }
      bench.advance(by: after)
      let isProbe = bench.permit()?.kind == .probe
      // Open from the deadline on, and due again 5 seconds later.
      #expect(isProbe == (after < .seconds(30) ? isGone : after >= .seconds(35)))
      bench.advance(by: .seconds(35))
      #expect(bench.permit()?.kind == .probe)
    }
  }
}
