import Testing

@testable import BreakerCore

/// A probe that is still running keeps its slot, whatever happens to the breaker meanwhile.
@Suite struct SlotTests {
  @Test func `no more probes than allowed are under way, however often the breaker reopens`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(1), probes: 2))
    bench.trip()
    for round in 0..<5 {
      bench.advance(by: .seconds(1))
      let slow = bench.permit(for: .process(10 + round))
      let failing = bench.permit(for: .process(20 + round))
      #expect(slow != nil)
      #expect((failing != nil) == (round < 1))
      #expect(bench.record.leases.count <= 2)
      bench.report(.failure(), for: failing ?? slow)
    }
    #expect(bench.record.leases.count == 1)
  }

  @Test func `a due breaker whose slots are all taken stays open and says when one is free`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(1), probes: 2))
    bench.becomeDue()
    _ = bench.permit(for: .process(2), probeTimeout: .seconds(40))
    let other = bench.permit(for: .process(3))
    bench.trip()
    bench.becomeDue()
    let expected = Rejection(state: .open, mode: .automatic, retryAfter: .seconds(1))
    #expect(bench.assess() == .rejected(expected))
    #expect(bench.request().rejection == expected)
    #expect(bench.state == .open)
    #expect(bench.report(.success, for: other) == .outdated)
    #expect(bench.record.totals.successes == 1)
    #expect(bench.permit()?.kind == .probe)
    #expect(bench.state == .halfOpen)
    #expect(bench.record.leases.count == 2)
  }

  @Test
  func `a slot of an earlier round is freed at its deadline without failing a current probe`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(1), probes: 1))
    bench.becomeDue()
    _ = bench.permit()
    bench.trip()
    bench.advance(by: .seconds(30) - .nanosecond)
    #expect(bench.request().rejection?.retryAfter == .nanosecond)
    bench.advance(by: .nanosecond)
    #expect(bench.look.state == .open)
    #expect(bench.permit()?.kind == .probe)
    #expect(bench.state == .halfOpen)
    #expect(bench.record.trips == 2)
  }

  @Test func `a slot of an earlier round is freed at once when its owner is gone`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(1), probes: 1))
    bench.becomeDue()
    _ = bench.permit(for: .process(2))
    bench.trip()
    bench.becomeDue()
    #expect(bench.request().rejection != nil)
    bench.gone = [.process(2)]
    #expect(bench.assess() == .undecided)
    #expect(bench.permit()?.kind == .probe)
  }

  @Test func `a close or a reset does not take the slot of a running probe`() {
    for isReset in [false, true] {
      var bench = Bench(BreakerPolicy(openFor: .seconds(1), probes: 2))
      bench.becomeDue()
      let running = bench.permit(for: .process(2))
      if isReset { bench.reset() } else { bench.call(.success) }
      #expect(bench.state == .closed)
      #expect(bench.record.leases.count == 1)
      bench.becomeDue()
      #expect(bench.permit() != nil)
      #expect(bench.permit() == nil)
      #expect(bench.report(.failure(), for: running) == .outdated)
      #expect(bench.state == .halfOpen)
      #expect(bench.permit() != nil)
    }
  }

  @Test func `an outcome of an earlier round frees its slot and counts only in the totals`() {
    for outcome in [CallOutcome.success, .failure(error: "late"), .ignored, .permanentFailure()] {
      var bench = Bench(BreakerPolicy(openFor: .seconds(1), probes: 2))
      bench.becomeDue()
      let old = bench.permit()
      bench.trip()
      bench.becomeDue()
      _ = bench.permit()
      var before = bench.record
      #expect(bench.report(outcome, for: old) == .outdated)
      before.leases.removeFirst()
      before.totals = bench.record.totals
      before.usualProbeNanoseconds = bench.record.usualProbeNanoseconds
      before.lastError = bench.record.lastError
      before.lastFailureAtMilliseconds = bench.record.lastFailureAtMilliseconds
      #expect(bench.record == before)
      #expect(bench.report(outcome, for: old) == .refused)
    }
  }

  @Test func `only the probes of the current round count towards probe-calls`() {
    let policy = BreakerPolicy(
      openFor: .seconds(1), probes: 4, probeCalls: 2, probeFailureRate: 1.0)
    var bench = Bench(policy)
    bench.becomeDue()
    _ = bench.permit(probeTimeout: .seconds(99))
    _ = bench.permit(probeTimeout: .seconds(99))
    #expect(bench.permit() == nil)
    bench.trip()
    bench.becomeDue()
    #expect(bench.permit() != nil)
    #expect(bench.permit() != nil)
    bench.advance(by: .milliseconds(300))
    #expect(bench.request().rejection?.retryAfter == .milliseconds(700))
    #expect(bench.record.leases.count == 4)
  }

  @Test func `a rejection names when a probe may start after probes was lowered midway`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(1), probes: 3))
    bench.becomeDue()
    for seconds in [50, 40, 60] {
      _ = bench.permit(probeTimeout: .seconds(seconds))
      bench.advance(by: .milliseconds(200))
    }
    bench.trip()
    bench.becomeDue()
    // The probes began 1.6, 1.4 and 1.2 seconds ago.
    bench.policy.probes = 2
    #expect(bench.request().rejection?.retryAfter == .milliseconds(600))
    bench.policy.probes = 1
    #expect(bench.request().rejection?.retryAfter == .milliseconds(800))
    bench.advance(by: .seconds(59))
    #expect(bench.permit()?.kind == .probe)
  }

  @Test func `a half-open rejection names when a current probe may have ended if that comes first`()
  {
    var bench = Bench(BreakerPolicy(openFor: .seconds(1), probes: 3))
    bench.becomeDue()
    for _ in 0..<2 { _ = bench.permit(probeTimeout: .seconds(90)) }
    bench.trip()
    bench.advance(by: .milliseconds(200))
    bench.becomeDue()
    _ = bench.permit()
    bench.advance(by: .milliseconds(700))
    // Two of three would have to end before another probe may begin.
    bench.policy.probes = 2
    #expect(bench.request().rejection?.retryAfter == .milliseconds(300))
    #expect(bench.request().rejection?.state == .halfOpen)
  }

  @Test func `a probe permit of another generation holds no slot, and its report is refused`() {
    var (bench, probe) = LeaseTests.probing()
    probe?.generation = PermitGrant.unjudged
    #expect(bench.report(.success, for: probe) == .refused)
    #expect(bench.record.leases.count == 1)
    #expect(bench.record.totals == BreakerTotals())
  }
}
