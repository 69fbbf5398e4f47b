import Testing

@testable import BreakerCore

@Suite struct LeaseTests {
  /// A breaker that has just given a probe permit to process 2.
  static func probing(_ policy: BreakerPolicy = BreakerPolicy()) -> (Bench, PermitGrant?) {
    var bench = Bench(policy)
    bench.becomeDue()
    let probe = bench.permit(for: .process(2))
    return (bench, probe)
  }

  @Test(arguments: [1, 2, 7])
  func `no more probes than the policy allows are under way`(probes: Int) {
    var (bench, _) = Self.probing(BreakerPolicy(probes: probes, successesToClose: 99))
    for _ in 1..<probes { #expect(bench.permit()?.kind == .probe) }
    let expected = Rejection(state: .halfOpen, mode: .automatic, retryAfter: .seconds(1))
    #expect(bench.request().rejection == expected)
    #expect(bench.record.leases.count == probes)
  }

  @Test func `a rejection names when the first of several probes may have ended`() {
    var (bench, _) = Self.probing(BreakerPolicy(probes: 2))
    bench.advance(by: .milliseconds(400))
    _ = bench.permit()
    bench.advance(by: .milliseconds(100))
    #expect(bench.request().rejection?.retryAfter == .milliseconds(500))
  }

  @Test func `a lease names the lifeline of its owner, which tells it from the bare process`() {
    let lifeline = Lifeline(byte: 1 << 40, file: 7)
    let owner = ProcessIdentity.process(2).holding(lifeline)
    var (bench, _) = Self.probing(BreakerPolicy(probes: 2))
    _ = bench.permit(for: owner)
    #expect(bench.record.leases.map(\.owner?.lifeline) == [nil, lifeline])
    bench.gone = [owner]
    #expect(bench.permit()?.kind == .probe)
    #expect(bench.record.leases.map(\.owner) == [.process(2), .process(1)])
  }

  @Test func `the lease of a process that is gone is taken back at once`() {
    var (bench, probe) = Self.probing()
    bench.gone = [.process(2)]
    #expect(bench.assess() == .undecided)
    let next = bench.permit()
    #expect(next?.kind == .probe)
    #expect(next?.lease != probe?.lease)
    #expect(bench.state == .halfOpen)
    #expect(bench.record.probeFailures == 0)
    let totals = bench.record.totals
    #expect(bench.report(.failure(), for: probe) == .refused)
    #expect(bench.record.totals == totals)
    #expect(bench.report(.success, for: next) == .counted)
    #expect(bench.state == .closed)
  }

  @Test func `the report of a process that is gone is refused even if its slot is still free`() {
    var (bench, probe) = Self.probing()
    bench.gone = [.process(2)]
    #expect(bench.report(.success, for: probe) == .refused)
    #expect(bench.state == .halfOpen)
    #expect(bench.record.leases.isEmpty)
  }

  @Test func `a probe whose owner is gone still fails if its deadline has already passed`() {
    var (bench, _) = Self.probing()
    bench.advance(by: .seconds(31))
    let alive = bench.look
    bench.gone = [.process(2)]
    #expect(bench.look == alive)
    #expect(bench.request().rejection?.retryAfter == .seconds(29))
    #expect(bench.transitions.last == "half_open>open")
  }

  @Test func `a probe may report until just before its deadline`() {
    var (bench, probe) = Self.probing()
    bench.advance(by: .seconds(30) - .nanosecond)
    #expect(bench.request().rejection?.retryAfter == .nanosecond)
    #expect(bench.report(.success, for: probe) == .counted)
    #expect(bench.state == .closed)
  }

  @Test func `a probe fails at its deadline, and its late report is refused`() {
    var (bench, probe) = Self.probing()
    bench.advance(by: .seconds(30))
    #expect(bench.assess() == .undecided)
    #expect(bench.report(.success, for: probe) == .refused)
    #expect(bench.state == .open)
    #expect(bench.events.last?.reason == "the probe took longer than probe-timeout")
    #expect(bench.record.totals.failures == 1)
    #expect(bench.record.totals.successes == 0)
  }

  @Test func `the next caller finds the breaker open when a probe has taken too long`() {
    var (bench, probe) = Self.probing()
    bench.advance(by: .seconds(30))
    let expected = Rejection(state: .open, mode: .automatic, retryAfter: .seconds(30))
    #expect(bench.request().rejection == expected)
    #expect(bench.report(.failure(), for: probe) == .refused)
    #expect(bench.record.trips == 2)
  }

  @Test func `a lease without an owner ends only at its deadline`() {
    var bench = Bench()
    bench.becomeDue()
    let probe = bench.permit(for: nil)
    bench.gone = [.worker]
    #expect(bench.request().rejection != nil)
    #expect(bench.report(.success, for: probe, by: nil) == .counted)
  }

  @Test func `an ignored probe frees its slot and decides nothing`() {
    var (bench, probe) = Self.probing()
    #expect(bench.report(.ignored, for: probe) == .counted)
    #expect(bench.state == .halfOpen)
    #expect(bench.permit()?.kind == .probe)
    #expect(bench.record.probeSuccesses + bench.record.probeFailures == 0)
  }

  @Test(arguments: [CallOutcome.success, .failure(), .ignored])
  func `a second report of the same probe is refused`(outcome: CallOutcome) {
    var (bench, probe) = Self.probing(BreakerPolicy(probes: 2, successesToClose: 9))
    bench.report(.ignored, for: probe)
    #expect(bench.report(outcome, for: probe) == .refused)
    #expect(bench.state == .halfOpen)
  }

  @Test func `the report of a probe permit with an unknown lease is refused`() {
    var (bench, _) = Self.probing()
    let forged = PermitGrant(kind: .probe, generation: 1, lease: 99)
    #expect(bench.report(.success, for: forged) == .refused)
  }

  @Test func `a step asks only once whether the owner of a lease is gone`() {
    var (bench, _) = Self.probing()
    var questions = 0
    let events = bench.record.settle(at: bench.now, policy: bench.policy) { _ in
      questions += 1
      return questions > 1
    }
    #expect(events.isEmpty)
    let step = bench.record.requested(at: bench.now, by: .worker, policy: bench.policy)
    #expect(step.answer.rejection != nil)
    #expect(bench.record.leases.count == 1)
    #expect(questions == 1)
  }
}
