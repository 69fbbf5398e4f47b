import Testing

@testable import BreakerCore

/// A trip of a breaker that is already open.
@Suite struct ExtensionTests {
  @Test func `a trip of an open breaker sets its open time again and does not count as a trip`() {
    var bench = Bench()
    bench.trip(reason: "deploy")
    let opened = bench.now.wallMilliseconds
    let before = bench.record
    bench.advance(by: .seconds(20))
    bench.trip(for: .seconds(60), reason: "still deploying")
    #expect(bench.openRemaining == .seconds(60))
    #expect(bench.record.trips == 1)
    #expect(bench.record.generation == before.generation)
    #expect(bench.record.growth == before.growth)
    #expect(bench.record.tally == before.tally)
    #expect(bench.record.openedAtMilliseconds == opened)
    #expect(bench.record.changedAtMilliseconds == opened)
    #expect(
      bench.events.last
        == BreakerEvent(
          .extended, reason: "still deploying",
          atMilliseconds: bench.now.wallMilliseconds))
    #expect(bench.transitions == ["closed>open"])
  }

  @Test
  func `a trip without a time restarts the open time and does not make the next one longer`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, openFor: .seconds(10), openMultiplier: 2))
    bench.becomeDue()
    bench.call(.failure())
    #expect(bench.openRemaining == .seconds(20))
    bench.advance(by: .seconds(15))
    for _ in 0..<3 { bench.trip() }
    #expect(bench.openRemaining == .seconds(20))
    bench.becomeDue()
    bench.call(.failure())
    #expect(bench.openRemaining == .seconds(40))
  }

  @Test func `a trip of a breaker that is due restarts its open time`() {
    var bench = Bench()
    bench.becomeDue()
    bench.trip(for: .seconds(5))
    #expect(bench.request().rejection?.retryAfter == .seconds(5))
    #expect(bench.record.trips == 1)
  }

  @Test func `a trip can shorten the open time that was left`() {
    var bench = Bench()
    bench.trip(for: .seconds(600))
    bench.trip(for: .zero)
    #expect(bench.permit()?.kind == .probe)
  }

  @Test func `a reboot keeps the rest of the latest open time`() {
    var bench = Bench()
    bench.trip()
    bench.advance(by: .seconds(1_000))
    bench.trip(for: .seconds(60))
    bench.advance(by: .seconds(10))
    RebootTests.reboot(&bench, uptime: .seconds(3), passed: .seconds(20))
    #expect(bench.openRemaining == .seconds(30))
    // If the clock was set back, the whole time is left, and no more.
    bench.now.boot = Instant(nanoseconds: 0)
    RebootTests.reboot(&bench, uptime: .zero, passed: .zero - RebootTests.year)
    #expect(bench.openRemaining == .seconds(60))
  }

  @Test func `the next opening or reset forgets the extension`() {
    var bench = Bench()
    bench.trip()
    bench.trip(for: .seconds(60))
    #expect(bench.record.extendedAtMilliseconds != nil)
    bench.becomeDue()
    bench.call(.failure())
    #expect(bench.record.extendedAtMilliseconds == nil)
    bench.trip()
    bench.reset()
    #expect(bench.record.extendedAtMilliseconds == nil)
  }
}
