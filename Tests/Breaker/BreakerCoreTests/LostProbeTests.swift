import Testing

@testable import BreakerCore

/// Probes whose processes ended before they could report.
@Suite struct LostProbeTests {
  /// A half-open breaker without a probe.
  private static func due(_ policy: BreakerPolicy = BreakerPolicy(openFor: .seconds(5))) -> Bench {
    var bench = Bench(policy)
    bench.becomeDue()
    return bench
  }

  /// Begins the probe of a process, and kills that process after some time.
  private static func kill(
    _ number: Int, after time: Duration = .milliseconds(60), in bench: inout Bench
  ) -> PermitGrant? {
    let permit = bench.permit(for: .process(number))
    bench.advance(by: time)
    bench.gone.insert(.process(number))
    return permit
  }

  @Test func `after two probes lost one after the other the next one waits for open-for`() {
    var bench = Self.due()
    #expect(Self.kill(1, in: &bench)?.kind == .probe)
    #expect(Self.kill(2, in: &bench)?.kind == .probe)
    for number in 3..<6 { #expect(Self.kill(number, in: &bench) == nil) }
    let expected = Rejection(
      state: .halfOpen, mode: .automatic, retryAfter: .milliseconds(5_000 - 4 * 60))
    #expect(bench.request().rejection == expected)
    #expect(bench.record.probeFailures == 0 && bench.record.totals.failures == 0)
    #expect(
      bench.events.filter { $0.change.kind == .probe }.map(\.reason) == [
        "process 1 has ended",
        "process 2 has ended, as that of the probe before did: the next probe waits for open-for",
      ])
    bench.advance(by: .milliseconds(5_000 - 4 * 60) - .nanosecond)
    #expect(bench.request().rejection?.retryAfter == .nanosecond)
    bench.advance(by: .nanosecond)
    // The third in a row, and the next one waits again.
    #expect(Self.kill(6, in: &bench)?.kind == .probe)
    #expect(bench.request().rejection?.retryAfter == .milliseconds(4_940))
    bench.advance(by: .milliseconds(4_940))
    #expect(bench.call(.success, by: .process(9)) == .counted)
    #expect(bench.state == .closed && bench.record.trips == 1)
  }

  @Test func `the wait after lost probes counts from the last one's start, not from a request`() {
    var bench = Self.due()
    _ = Self.kill(1, in: &bench)
    _ = Self.kill(2, after: .seconds(1), in: &bench)
    let first = bench.look
    bench.advance(by: .seconds(2))
    #expect(bench.look == first)
    #expect(bench.assess() == .undecided)
    #expect(bench.request().rejection?.retryAfter == .seconds(2))
    #expect(bench.assess() == .rejected(bench.request().rejection!))
  }

  @Test(arguments: [CallOutcome.success, .failure(), .ignored])
  func `an outcome ends the row of lost probes`(outcome: CallOutcome) {
    let rate = BreakerPolicy(openFor: .seconds(5), probeCalls: 6, probeFailureRate: 0.5)
    var bench = Self.due(rate)
    for number in 1..<3 {
      #expect(Self.kill(number, in: &bench)?.kind == .probe)
      #expect(bench.call(outcome, by: .process(9)) == .counted)
    }
    #expect(Self.kill(4, in: &bench)?.kind == .probe)
    #expect(Self.kill(5, in: &bench)?.kind == .probe)
    #expect(bench.request().rejection != nil)
  }

  @Test func `probes that run beside each other and are lost together hold no probe back`() {
    var bench = Self.due(BreakerPolicy(openFor: .seconds(5), probes: 3))
    for number in 1...3 { #expect(bench.permit(for: .process(number))?.kind == .probe) }
    bench.advance(by: .seconds(1))
    bench.gone = [.process(1), .process(2)]
    #expect(bench.permit(for: .process(4))?.kind == .probe)
    // The third one is noticed later, but began before the first loss was noticed.
    bench.advance(by: .seconds(1))
    bench.gone.insert(.process(3))
    #expect(bench.permit(for: .process(5))?.kind == .probe)
    // These two began after it, and are one further loss.
    bench.advance(by: .seconds(1))
    bench.gone.formUnion([.process(4), .process(5)])
    #expect(bench.request(by: .process(6)).rejection?.retryAfter == .seconds(3))
  }

  @Test func `a caller that waits after lost probes is told when one that runs may have ended`() {
    var bench = Self.due(BreakerPolicy(openFor: .seconds(5), probes: 3))
    let running = bench.permit(for: .process(9))
    _ = Self.kill(1, in: &bench)
    _ = Self.kill(2, in: &bench)
    #expect(bench.request().rejection?.retryAfter == .milliseconds(880))
    #expect(bench.report(.success, for: running) == .counted)
    #expect(bench.state == .closed)
  }

  @Test func `a lost probe of an earlier round only frees its slot`() {
    var bench = Self.due()
    _ = bench.permit(for: .process(1))
    bench.trip()
    bench.becomeDue()
    bench.gone = [.process(1)]
    #expect(Self.kill(2, in: &bench)?.kind == .probe)
    #expect(bench.permit(for: .process(3))?.kind == .probe)
  }

  @Test func `lost probes hold no caller back after a reboot`() {
    var bench = Self.due()
    _ = Self.kill(1, in: &bench)
    _ = Self.kill(2, in: &bench)
    bench.settle()
    bench.now.boot = Instant(nanoseconds: 1_000_000_000)
    bench.record = bench.record.carriedOver(to: bench.now)
    #expect(bench.permit(for: .process(3))?.kind == .probe)
  }

  @Test func `a suspicion that ends leaves no row of lost probes behind`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(5), fleetQuorum: .hosts(1)))
    bench.suspect()
    _ = Self.kill(1, in: &bench)
    _ = bench.permit(for: .process(2))
    bench.advance(by: .seconds(30))
    bench.settle()
    #expect(bench.state == .closed && bench.record.openUntil == nil)
  }

  @Test func `where lost calls are failures, a lost probe has failed since it began`() {
    var bench = Self.due(
      BreakerPolicy(openFor: .seconds(5), maxConcurrent: 4, lostCalls: .failure))
    _ = Self.kill(1, after: .seconds(1), in: &bench)
    let first = bench.look
    #expect(first.state == .open)
    bench.advance(by: .seconds(1))
    #expect(bench.look.openUntil == first.openUntil)
    let expected = Rejection(state: .open, mode: .automatic, retryAfter: .seconds(3))
    #expect(bench.request().rejection == expected)
    #expect(bench.events.last?.reason == "the process of the probe ended")
    #expect(bench.transitions.last == "half_open>open" && bench.record.trips == 2)
    // Its slot shows the call itself, which is counted with the others of its process.
    #expect(bench.record.totals.failures == 0)
    bench.lose(1, of: .process(1))
    #expect(bench.record.totals.failures == 1 && bench.record.trips == 2)
  }

  @Test func `a lost probe is one of those that probe-failure-rate judges`() {
    var policy = BreakerPolicy(openFor: .seconds(5), probeCalls: 4, probeFailureRate: 0.5)
    (policy.maxConcurrent, policy.lostCalls) = (4, .failure)
    var bench = Self.due(policy)
    _ = Self.kill(1, in: &bench)
    bench.settle()
    #expect(bench.state == .halfOpen && bench.record.probeFailures == 1)
    _ = Self.kill(2, in: &bench)
    bench.settle()
    #expect(bench.state == .open)
    #expect(bench.events.last?.reason == "2 probes failed")
  }

  @Test func `a lost probe decides nothing while a mode is forced`() {
    var bench = Self.due(
      BreakerPolicy(openFor: .seconds(5), maxConcurrent: 4, lostCalls: .failure))
    _ = Self.kill(1, in: &bench)
    bench.record.mode.mode = .forcedClosed
    bench.settle()
    #expect(bench.state == .halfOpen && bench.record.leases.isEmpty)
  }

  @Test func `a lost probe of an earlier version counts from when its end is noticed`() {
    var bench = Self.due(
      BreakerPolicy(openFor: .seconds(5), maxConcurrent: 4, lostCalls: .failure))
    _ = Self.kill(1, after: .seconds(1), in: &bench)
    bench.record.leases[0].began = nil
    #expect(bench.request().rejection?.retryAfter == .seconds(5))
  }
}
