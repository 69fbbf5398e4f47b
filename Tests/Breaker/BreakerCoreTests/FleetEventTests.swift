import Testing

@_spi(Relay) @testable import BreakerCore

/// Changes of a breaker that other hosts of a fleet bring about.
@Suite struct FleetEventTests {
  private static let policy = BreakerPolicy(
    maxFailures: 3, openFor: .seconds(30), fleetQuorum: .hosts(3), fleetSpread: .seconds(10))

  @Test(
    arguments: [
      (19, nil, 0), (20, nil, 800), (50, nil, 2_000), (500, nil, 10_000), (.max, nil, 10_000),
      (500, 1, 1_000), (20, 3, 800), (500, 60, 10_000),
    ] as [(Int, Int64?, Int64)])
  func `the suspicions of a large fleet are spread`(hosts: Int, spread: Int64?, milliseconds: Int64)
  {
    let policy = BreakerPolicy(
      openFor: .seconds(30), fleetQuorum: .hosts(2), fleetSpread: spread.map { .seconds($0) })
    #expect(policy.suspicionSpread(ofFleet: hosts) == .milliseconds(milliseconds))
  }

  @Test func `suspicions are spread over no more than half of the open time`() {
    let policy = BreakerPolicy(openFor: .seconds(4), fleetQuorum: .hosts(2))
    #expect(policy.suspicionSpread(ofFleet: 500) == .seconds(2))
  }

  @Test func `a suspected breaker makes its next call a probe, whose success closes it`() {
    var bench = Bench(Self.policy)
    let early = bench.permit()
    #expect(bench.suspect(by: 4) == true)
    #expect(bench.events.last?.reason == "suspected by 4 hosts")
    #expect(bench.record.suspectedAt == bench.now.boot)
    #expect(bench.report(.failure(), for: early) == .outdated)
    let probe = bench.permit()
    #expect(probe?.kind == .probe)
    #expect(bench.permit() == nil)
    bench.report(.success, for: probe)
    #expect(
      bench.events.map(\.arrow) == ["suspicion:closed>half_open", "suspicion:half_open>closed"])
    #expect(!bench.events.contains { $0.change.beginsOutage || $0.change.endsOutage })
    #expect(bench.record.trips == 0)
  }

  @Test func `a suspicion leaves the slots to the probes that still run`() {
    var bench = Bench(Self.policy)
    bench.becomeDue()
    let running = bench.permit()
    bench.reset()
    #expect(bench.suspect() == true)
    #expect(bench.permit() == nil)
    bench.report(.success, for: running)
    #expect(bench.permit()?.kind == .probe)
  }

  @Test func `a suspected probe that fails opens the breaker for as long as a trip would`() {
    var policy = Self.policy
    policy.openMultiplier = 2
    for isSuspected in [false, true] {
      var bench = Bench(policy)
      // Two trips in a row, of which the healthy time forgets one.
      bench.becomeDue()
      bench.call(.failure())
      bench.becomeDue()
      bench.call(.success)
      bench.advance(by: .seconds(60))
      if isSuspected {
        #expect(bench.suspect() == true)
        bench.call(.failure())
      } else {
        bench.calls(3, .failure())
      }
      #expect(bench.state == .open)
      #expect(bench.events.last?.change.beginsOutage == true)
      #expect(bench.openRemaining == .seconds(60))
      #expect(bench.record.trips == 3)
      #expect(!bench.record.isOpenTimeNamed)
    }
  }

  @Test func `between two suspicions a breaker is closed for open-for`() {
    var bench = Bench(Self.policy)
    #expect(bench.suspect() == true)
    let probe = bench.permit()
    bench.advance(by: .seconds(20))
    bench.report(.success, for: probe)
    bench.advance(by: .seconds(30) - .nanosecond)
    #expect(bench.suspect() == false)
    bench.advance(by: .nanosecond)
    #expect(bench.suspect() == true)
  }

  @Test func `a suspicion that was wrong keeps the breaker's counts`() {
    var bench = Bench(
      BreakerPolicy(
        maxFailures: 3, failureRate: 0.5, last: 10, minCalls: 4, openFor: .seconds(30),
        openMultiplier: 2, fleetQuorum: .hosts(1)))
    bench.becomeDue()
    bench.call(.failure())
    bench.becomeDue()
    bench.call(.success)
    let closedAt = bench.record.closedAt
    bench.advance(by: .seconds(5))
    bench.calls(2, .failure())
    let before = bench.record
    bench.suspect()
    bench.call(.success)
    #expect(bench.state == .closed)
    #expect(bench.record.window == before.window)
    #expect(bench.record.growth == before.growth)
    #expect(bench.record.closedAt == closedAt)
    #expect(bench.record.consecutiveFailures == 0)
    #expect(bench.record.generation == before.generation + 2)
    bench.call(.failure())
    bench.call(.success)
    #expect(bench.state == .closed)
    bench.call(.failure())
    #expect(bench.events.last?.reason == "4 of 5 calls failed")
  }

  @Test func `a recovery from a real outage still starts over after a suspicion`() {
    var bench = Bench(Self.policy)
    bench.suspect()
    bench.call(.failure())
    bench.advance(by: .seconds(30))
    bench.call(.success)
    #expect(bench.record.closedAt == bench.now.boot)
  }

  @Test func `a reboot forgets the latest suspicion`() {
    var bench = Bench(Self.policy)
    bench.suspect()
    bench.call(.success)
    RebootTests.reboot(&bench, uptime: .seconds(1), passed: .seconds(1))
    #expect(bench.record.suspectedAt == nil)
    #expect(bench.suspect() == true)
  }

  @Test(arguments: [CallOutcome.success, .failure()])
  func `a reboot does not forget that a half-open breaker is only suspected`(
    outcome: CallOutcome
  ) {
    var bench = Bench(Self.policy)
    bench.suspect()
    bench.record.moveBeginning(to: Instant(nanoseconds: -5))
    RebootTests.reboot(&bench, uptime: .seconds(1), passed: .seconds(1))
    bench.report(outcome, for: bench.permit())
    let last = outcome == .success ? "suspicion:half_open>closed" : "suspicion:half_open>open"
    #expect(bench.events.last?.arrow == last)
  }

  @Test(
    arguments: [
      (nil, 99, false), (.hosts(3), 2, false), (.hosts(3), 3, true), (.hosts(1), 1, true),
      (.share(0.01), 1, false), (.share(0.01), 2, true),
    ] as [(FleetQuorum?, Int, Bool)])
  func `only a quorum makes a breaker suspect`(quorum: FleetQuorum?, hosts: Int, isEnough: Bool) {
    var bench = Bench(BreakerPolicy(fleetQuorum: quorum))
    #expect(bench.suspect(by: hosts) == isEnough)
    #expect(bench.state == (isEnough ? .halfOpen : .closed))
  }

  @Test func `a share of a fleet is rounded up, and is never one host alone`() {
    let quorum = FleetQuorum.share(0.3)
    #expect([0, 1, 3, 10, 11, 100].map(quorum.hosts(ofFleet:)) == [2, 2, 2, 3, 4, 30])
    #expect(FleetQuorum.hosts(3).hosts(ofFleet: 1) == 3)
    #expect(FleetQuorum.share(1.0).hosts(ofFleet: .max) > 1_000_000)
  }

  @Test func `a recovery elsewhere ends the open time within fleet-spread`() {
    var bench = Bench(Self.policy)
    bench.calls(3, .failure())
    bench.advance(by: .seconds(5))
    bench.jitter = 0.25
    #expect(bench.recover(on: "host-b") == true)
    #expect(bench.openRemaining == .milliseconds(2_500))
    #expect(
      bench.events.last
        == BreakerEvent(
          .recovery, reason: "host-b recovered", atMilliseconds: bench.now.wallMilliseconds,
          origin: "host-b"))
    #expect(bench.record.generation == 2)
    // The first recovery decides, or several would bring the hosts back at nearly the same time.
    bench.jitter = 0
    #expect(bench.recover() == false)
    bench.advance(by: .milliseconds(2_500))
    #expect(bench.permit()?.kind == .probe)
  }

  @Test func `two recoveries elsewhere within open-for shorten one open time`() {
    var bench = Bench(Self.policy)
    bench.jitter = 0
    bench.calls(3, .failure())
    #expect(bench.recover() == true)
    bench.call(.failure())
    #expect(bench.state == .open)
    for _ in 0..<100 { #expect(bench.recover() == false) }
    bench.becomeDue()
    bench.call(.failure())
    // By now open-for has passed.
    #expect(bench.recover() == true)
    bench.call(.success)
    bench.calls(3, .failure())
    #expect(bench.recover() == false)
    RebootTests.reboot(&bench, uptime: .seconds(1), passed: .seconds(1))
    #expect(bench.record.recoveredAt == nil)
  }

  @Test func `a suspicion's probe that is as slow as calls here opens nothing`() {
    var policy = Self.policy
    policy.probeTimeout = .seconds(2)
    var bench = Bench(policy)
    #expect(bench.suspect() == true)
    let first = bench.permit()
    bench.advance(by: .seconds(2))
    // How long calls take is unknown, so the breaker goes on by what its own calls say.
    #expect(bench.permit()?.kind == .normal)
    #expect(bench.state == .closed)
    #expect(bench.record.totals.failures == 0)
    #expect(bench.record.trips == 0)
    #expect(bench.report(.success, for: first, elapsed: .seconds(4)) == .refused)
    #expect(bench.record.usualProbeNanoseconds == 4_000_000_000)
    // From now on it gets the time that calls take.
    bench.advance(by: .seconds(30))
    #expect(bench.suspect() == true)
    let second = bench.permit()
    bench.advance(by: .seconds(4))
    #expect(bench.state == .halfOpen)
    bench.report(.success, for: second, elapsed: .seconds(4))
    #expect(bench.state == .closed && bench.record.trips == 0)
    // But not more than that.
    bench.advance(by: .seconds(30))
    #expect(bench.suspect() == true)
    _ = bench.permit()
    bench.advance(by: .seconds(12))
    #expect(bench.permit() == nil)
    #expect(bench.state == .open)
    #expect(bench.record.totals.failures == 1)
  }

  @Test func `a late success of another probe only teaches how long calls take`() {
    var bench = Bench(Self.policy)
    bench.becomeDue()
    let probe = bench.permit()
    bench.advance(by: .seconds(30))
    #expect(bench.report(.failure(), for: probe, elapsed: .seconds(31)) == .refused)
    #expect(bench.record.usualProbeNanoseconds == nil)
    #expect(bench.report(.success, for: probe) == .refused)
    #expect(bench.record.usualProbeNanoseconds == nil)
    #expect(bench.report(.success, for: probe, elapsed: .seconds(31)) == .refused)
    #expect(bench.record.usualProbeNanoseconds == 31_000_000_000)
  }

  @Test func `an open time that ends within fleet-spread anyway stays as it is`() {
    var bench = Bench(Self.policy)
    bench.calls(3, .failure())
    bench.jitter = 0
    bench.advance(by: .seconds(20))
    #expect(bench.recover() == false)
    bench.advance(by: .zero - .nanosecond)
    #expect(bench.recover() == true)
    #expect(bench.openRemaining == .zero)
  }

  @Test func `a reboot keeps an open time that has become shorter`() {
    var bench = Bench(Self.policy)
    bench.calls(3, .failure())
    bench.jitter = 0.8
    bench.recover()
    bench.advance(by: .seconds(1))
    RebootTests.reboot(&bench, uptime: .seconds(1), passed: .seconds(2))
    #expect(bench.openRemaining == .seconds(5))
  }

  @Test func `a recovery elsewhere leaves an open time that an operator or a failure named`() {
    let openings: [(isNamed: Bool, open: (inout Bench) -> Void)] = [
      (false, { $0.calls(3, .failure()) }),
      (false, { $0.call(.permanentFailure()) }),
      (true, { $0.call(.failure(opensFor: .seconds(60))) }),
      (true, { $0.trip() }),
      (true, { $0.trip(for: .seconds(60)) }),
      (
        true,
        { bench in
          bench.calls(3, .failure())
          bench.trip()
        }
      ),
      // The next opening is the breaker's own again.
      (
        false,
        { bench in
          bench.becomeDue()
          bench.call(.failure())
        }
      ),
      (
        false,
        { bench in
          bench.trip()
          bench.reset()
          bench.calls(3, .failure())
        }
      ),
    ]
    for (index, opening) in openings.enumerated() {
      var bench = Bench(Self.policy)
      opening.open(&bench)
      #expect(bench.record.isOpenTimeNamed == opening.isNamed, "\(index)")
      let hasChanged = bench.recover()
      #expect(hasChanged == !opening.isNamed, "\(index)")
    }
  }

  @Test func `without fleet-spread a recovery elsewhere changes nothing`() {
    for spread in [nil, Duration.zero] {
      var bench = Bench(BreakerPolicy(maxFailures: 1, fleetSpread: spread))
      bench.call(.failure())
      #expect(bench.recover() == false)
    }
  }
}
