import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// A test host, which keeps its store in memory.
@Suite struct TestHostTests {
  @Test func `a breaker on a test host changes its states as the clock is moved`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 2))
    for _ in 0..<2 { #expect(throws: Refused.self) { try breaker.run { throw Refused() } } }
    #expect(breaker.state == .open)
    host.clock.advance(by: .seconds(30) - .nanoseconds(1))
    #expect(throws: BreakerError.self) { try breaker.run {} }
    host.clock.advance(by: .nanoseconds(1))
    try breaker.run {}
    #expect(breaker.state == .closed)
  }

  @Test func `all stores of one test host share their breakers`() throws {
    let host = TestHost()
    let here = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 2))
    let there = try host.store().breaker("api")
    try there.run {}
    #expect(throws: Refused.self) { try here.run { throw Refused() } }
    #expect(throws: Refused.self) { try there.run { throw Refused() } }
    #expect(here.state == .open)
    #expect(throws: BreakerError.self) { try here.run {} }
    #expect(try host.store().history().map(\.change.wireTo) == ["open"])
  }

  @Test func `a test host is exact to the nanosecond however long it has been up`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1))
    for _ in 0..<100 {
      host.clock.advance(by: .seconds(86_400) + .nanoseconds(1))
      try breaker.trip(for: .nanoseconds(12_345_678_901))
      host.clock.advance(by: .nanoseconds(12_345_678_900))
      #expect(breaker.snapshot().retryAfter == .nanoseconds(1))
      host.clock.advance(by: .nanoseconds(1))
      try breaker.run {}
    }
  }

  @Test func `two test hosts share no breakers`() throws {
    let breaker = try TestHost().store().breaker("api")
    try breaker.trip()
    #expect(try TestHost().store().breaker("api").state == .closed)
  }

  @Test func `an outage with several failed probes begins once and ends once`() throws {
    let host = TestHost()
    let store = host.store()
    let breaker = try store.breaker(
      "api", policy: BreakerPolicy(maxFailures: 1, openFor: .seconds(10)))
    for _ in 0..<5 {
      #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
      host.clock.advance(by: .seconds(10))
    }
    try breaker.run {}
    let entries = try store.history()
    #expect(entries.count(where: { $0.change.stateAfter == .open }) == 5)
    #expect(entries.filter(\.beginsOutage).map(\.id) == [entries.first?.id])
    #expect(entries.filter(\.endsOutage).map(\.id) == [entries.last?.id])
  }

  @Test func `a trip under a mode that lets calls through begins no outage`() throws {
    let host = TestHost()
    let store = host.store()
    for mode in [BreakerMode.observe, .forcedClosed] {
      let breaker = try store.breaker(
        mode.wireName, policy: BreakerPolicy(maxFailures: 1, openFor: .seconds(10)))
      try breaker.force(mode, for: .seconds(60))
      try breaker.trip()
      try breaker.run {}
      #expect(breaker.state == .open)
    }
    #expect(try store.history().contains { $0.change.beginsOutage })
    #expect(try !store.history().contains(where: \.beginsOutage))
  }

  @Test func `an outage begins when a mode ends that let calls of an open breaker through`() throws
  {
    let host = TestHost()
    let store = host.store()
    for ends in [true, false] {
      let name = ends ? "by time" : "by hand"
      let breaker = try store.breaker(name, policy: BreakerPolicy(openFor: .seconds(100)))
      try breaker.force(.observe, for: .seconds(60))
      try breaker.trip()
      if ends { host.clock.advance(by: .seconds(60)) } else { try breaker.force(.automatic) }
      #expect(throws: BreakerError.self) { try breaker.run {} }
      try breaker.reset()
      let begins = try store.history(of: name).filter(\.beginsOutage)
      #expect(begins.map(\.change) == [.mode(from: .observe, to: .automatic)])
    }
    // Of a closed breaker nothing is rejected when the mode ends.
    let closed = try store.breaker("closed")
    try closed.force(.observe)
    try closed.force(.automatic)
    #expect(try !store.history(of: "closed").contains(where: \.beginsOutage))
  }

  @Test func `a snapshot tells how far a half-open breaker has got`() throws {
    let host = TestHost()
    let breaker = try host.store().breaker(
      "api",
      policy: BreakerPolicy(
        maxFailures: 1, openFor: .seconds(10), openMultiplier: 2, probes: 2, successesToClose: 3))
    func progress() -> [Int] {
      let now = breaker.snapshot()
      return [Int(now.probeSuccesses), now.freeProbeSlots, Int(now.openTimeGrowth)]
    }
    #expect(progress() == [0, 0, 0])
    for seconds in [10, 20] {
      #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
      host.clock.advance(by: .seconds(seconds))
    }
    #expect(progress() == [0, 2, 1])
    let probe = try breaker.acquire()
    #expect(progress() == [0, 1, 1])
    try breaker.run {}
    #expect(progress() == [1, 1, 1])
    probe.succeed()
    #expect(progress() == [2, 2, 1])
    try breaker.run {}
    #expect(progress() == [0, 0, 1])
    #expect(breaker.state == .closed)
  }

  @Test func `a failure rate is unknown while there are too few calls to judge`() throws {
    let breaker = try TestHost().store().breaker(
      "api", policy: BreakerPolicy(failureRate: 0.9, window: .seconds(60), minCalls: 4))
    for _ in 0..<3 { #expect(throws: Refused.self) { try breaker.run { throw Refused() } } }
    #expect(breaker.snapshot().failureRate == nil)
    #expect(breaker.snapshot().windowFailures == 3)
    try breaker.run {}
    #expect(breaker.snapshot().failureRate == 0.75)
  }
}
