import Testing

@testable import BreakerCore

/// A trip of a breaker that is open already.
@Suite struct ExtensionTests {
  @Test func `a trip of an open breaker sets its open time again and is no trip of its own`() {
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
          .extended, from: "open", to: "extended", reason: "still deploying",
          atMilliseconds: bench.now.wallMilliseconds))
    #expect(bench.transitions == ["closed>open"])
  }

  @Test
  func `a trip without a time gives an open breaker as long as it had, and no longer the next`() {
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

  @Test func `a trip of a breaker that is due makes it wait again`() {
    var bench = Bench()
    bench.becomeDue()
    bench.trip(for: .seconds(5))
    #expect(bench.request().rejection?.retryAfter == .seconds(5))
    #expect(bench.record.trips == 1)
  }

  @Test func `a time that is shorter than what was left holds`() {
    var bench = Bench()
    bench.trip(for: .seconds(600))
    bench.trip(for: .zero)
    #expect(bench.permit()?.kind == .probe)
  }

  @Test func `a reboot leaves what was left of the time that was set last`() {
    var bench = Bench()
    bench.trip()
    bench.advance(by: .seconds(1_000))
    bench.trip(for: .seconds(60))
    bench.advance(by: .seconds(10))
    RebootTests.reboot(&bench, uptime: .seconds(3), passed: .seconds(20))
    #expect(bench.openRemaining == .seconds(30))
    // A clock that was set back gives no more than the whole of it.
    bench.now.boot = Instant(nanoseconds: 0)
    RebootTests.reboot(&bench, uptime: .zero, passed: .zero - RebootTests.year)
    #expect(bench.openRemaining == .seconds(60))
  }

  @Test func `the next opening counts from itself again`() {
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
