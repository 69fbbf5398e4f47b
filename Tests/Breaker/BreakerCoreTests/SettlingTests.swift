import Testing

@testable import BreakerCore

/// Changes that time alone brings about: every process that asks sees the same ones.
@Suite struct SettlingTests {
  @Test func `a breaker whose probe hung an hour ago opened at the deadline and is due again`() {
    var (bench, _) = LeaseTests.probing()
    let deadline = Moment(
      boot: bench.now.boot.advanced(by: 30_000_000_000),
      wallMilliseconds: bench.now.wallMilliseconds + 30_000)
    let before = bench.record
    bench.advance(by: .seconds(3_600))
    let look = bench.look
    #expect(bench.record == before)
    #expect(look.state == .open)
    #expect(look.openUntil == deadline.boot.advanced(by: 30_000_000_000))
    #expect(look.openRemaining(at: bench.now.boot) == 0)
    #expect(look.openedAtMilliseconds == deadline.wallMilliseconds)
    #expect(look.changedAtMilliseconds == deadline.wallMilliseconds)
    #expect(look.lastFailureAtMilliseconds == deadline.wallMilliseconds)
    #expect(look.lastError == "the probe took longer than probe-timeout")
    #expect(look.totals.failures == 1)
    #expect(look.tally.since == deadline.boot)
    #expect(bench.permit()?.kind == .probe)
    #expect(bench.record.trips == 2)
  }

  @Test func `every process that asks sees the breaker open from a probe's deadline on`() {
    var (bench, _) = LeaseTests.probing()
    bench.advance(by: .seconds(30) - .nanosecond)
    #expect(bench.look.state == .halfOpen)
    bench.advance(by: .nanosecond)
    #expect(bench.look.state == .open)
    #expect(bench.look.openRemaining(at: bench.now.boot) == 30_000_000_000)
    #expect(bench.assess() == .undecided)
    bench.advance(by: .seconds(12))
    #expect(bench.request().rejection?.retryAfter == .seconds(18))
  }

  @Test func `past events come before the events of the step, each with its own time`() {
    var (bench, _) = LeaseTests.probing()
    let start = bench.now.wallMilliseconds
    bench.events = []
    bench.set(.observe, for: .seconds(90), by: "ann")
    bench.advance(by: .seconds(100))
    bench.reset()
    #expect(
      bench.events.map(\.arrow) == [
        "mode:automatic>observe", "probe:probe>timed_out", "half_open>open",
        "mode:observe>automatic", "reset:open>closed",
      ])
    #expect(
      bench.events.map { $0.atMilliseconds - start } == [0, 30_000, 30_000, 90_000, 100_000])
  }

  @Test func `settling twice has the same effect as settling once`() {
    var (bench, _) = LeaseTests.probing()
    bench.set(.observe, for: .seconds(40))
    bench.advance(by: .seconds(50))
    bench.settle()
    let record = bench.record
    let events = bench.events
    bench.settle()
    #expect(bench.record == record)
    #expect(bench.events == events)
  }

  @Test
  func `the first deadline of several probes decides, and the others only free their slots`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(300), probes: 3))
    bench.becomeDue()
    let first = bench.now
    _ = bench.permit(for: .process(2), probeTimeout: .seconds(50))
    _ = bench.permit(for: .process(3))
    _ = bench.permit(for: .process(4), probeTimeout: .seconds(70))
    bench.events = []
    bench.advance(by: .seconds(60))
    let look = bench.look
    #expect(look.openUntil == first.boot.advanced(by: 330_000_000_000))
    #expect(look.leases.map(\.id) == [3])
    #expect(look.totals.failures == 2)
    #expect(look.trips == 2)
    bench.settle()
    #expect(
      bench.events.map(\.reason) == [
        "process 3 took longer than probe-timeout", "the probe took longer than probe-timeout",
        "process 2 took longer than probe-timeout",
      ])
  }

  @Test func `probe-calls are judged at the deadline that makes their outcome certain`() {
    let policy = BreakerPolicy(
      openFor: .seconds(300), probes: 9, probeCalls: 4, probeFailureRate: 0.5)
    var bench = Bench(policy)
    bench.becomeDue()
    _ = bench.permit(probeTimeout: .seconds(40))
    _ = bench.permit()
    _ = bench.permit(probeTimeout: .seconds(35))
    bench.advance(by: .seconds(34))
    #expect(bench.look.state == .halfOpen)
    #expect(bench.look.probeFailures == 1)
    bench.advance(by: .seconds(66))
    #expect(bench.look.state == .open)
    #expect(bench.look.openRemaining(at: bench.now.boot) == 235_000_000_000)
  }

  @Test func `an opening at a deadline has the same jitter in every process that works it out`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(100), jitter: 0.5))
    bench.becomeDue()
    _ = bench.permit()
    bench.advance(by: .seconds(31))
    let early = bench.look.openUntil
    bench.jitter = 0.1
    bench.advance(by: .seconds(500))
    #expect(bench.look.openUntil == early)
    let draws = (1...1_000).map { number in
      ProbeLease(
        id: number, generation: 3, owner: nil, deadline: Instant(nanoseconds: number * 1_000)
      ).jitter
    }
    #expect(draws.allSatisfy { (0..<1).contains($0) })
    for tenth in 0..<10 {
      #expect((60...140).contains(draws.count { Int($0 * 10) == tenth }), "\(tenth) tenths")
    }
    // Stored instants depend on it, so it must be the same in every version.
    let lease = ProbeLease(
      id: 7, generation: 3, owner: .worker, deadline: Instant(nanoseconds: 123_456_789))
    #expect(lease.jitter == 0.6370032077740632)
  }

  @Test func `the history records the death of a probe's owner at the time it was noticed`() {
    var (bench, _) = LeaseTests.probing()
    bench.advance(by: .seconds(3))
    bench.gone = [.process(2)]
    bench.settle()
    #expect(
      bench.events.last
        == BreakerEvent(
          .probe(.lost), reason: "process 2 has ended",
          atMilliseconds: bench.now.wallMilliseconds))
    #expect(bench.record.totals == BreakerTotals())
    #expect(bench.record.lastError == nil)
  }

  @Test func `the history records the timeout of a probe without an owner without a process`() {
    var bench = Bench()
    bench.becomeDue()
    _ = bench.permit(for: nil)
    bench.advance(by: .seconds(30))
    bench.settle()
    #expect(bench.events.dropLast().last?.reason == "it took longer than probe-timeout")
  }

  @Test func `a closed breaker only counts the failure if a probe of an earlier round times out`() {
    var bench = Bench(BreakerPolicy(probes: 2))
    bench.becomeDue()
    _ = bench.permit(for: .process(2))
    bench.call(.success)
    #expect(bench.state == .closed)
    let before = bench.record
    bench.events = []
    bench.advance(by: .seconds(30))
    bench.settle()
    var after = before
    after.leases = []
    after.totals.failures += 1
    after.lastError = "the probe took longer than probe-timeout"
    after.lastFailureAtMilliseconds = bench.now.wallMilliseconds
    #expect(bench.record == after)
    #expect(bench.events.map(\.arrow) == ["probe:probe>timed_out"])
  }

  @Test func `a wall clock at either end of its range does no harm when a probe is settled late`() {
    for wall in [Int64.min, .max] {
      var (bench, _) = LeaseTests.probing()
      bench.advance(by: .seconds(31))
      bench.now.wallMilliseconds = wall
      #expect(bench.look.state == .open)
    }
  }
}
