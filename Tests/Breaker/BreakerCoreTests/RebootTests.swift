import Testing

@testable import BreakerCore

@Suite struct RebootTests {
  /// A first look after a reboot, and when a time that was running then ends.
  struct Look: Sendable {
    var uptime: Duration

    /// How much of the time has passed on the wall clock.
    var passed: Duration

    /// When the time is over, counted from the boot.
    var end: Duration
  }

  static let year = Duration.seconds(86_400 * 365)

  /// Looks at a time that was set to 30 s.
  static let looks = [
    Look(uptime: .seconds(5), passed: .zero, end: .seconds(30)),
    Look(uptime: .zero, passed: .zero, end: .seconds(30)),
    Look(uptime: .seconds(5), passed: .seconds(10), end: .seconds(25)),
    Look(uptime: .seconds(5), passed: .seconds(29), end: .seconds(6)),
    Look(uptime: .seconds(5), passed: .seconds(30), end: .seconds(5)),
    Look(uptime: .seconds(5), passed: .seconds(31), end: .seconds(4)),
    Look(uptime: .seconds(5), passed: year, end: .seconds(35) - year),
    Look(uptime: .seconds(5), passed: .zero - year, end: .seconds(30)),
    Look(uptime: .seconds(29), passed: .seconds(10), end: .seconds(30)),
    Look(uptime: .seconds(31), passed: .seconds(10), end: .seconds(30)),
    Look(uptime: .seconds(999), passed: .zero - year, end: .seconds(30)),
  ]

  static func reboot(_ bench: inout Bench, uptime: Duration, passed: Duration) {
    bench.now.boot = Instant(nanoseconds: uptime.inNanoseconds)
    bench.now.wallMilliseconds += passed.inNanoseconds / 1_000_000
    bench.record = bench.record.carriedOver(to: bench.now)
  }

  @Test(arguments: looks)
  func `a reboot never leaves more than the whole of an open time`(look: Look) {
    var bench = Bench(BreakerPolicy(openFor: .seconds(30)))
    bench.trip()
    Self.reboot(&bench, uptime: look.uptime, passed: look.passed)
    #expect(bench.record.openUntil?.nanoseconds == look.end.inNanoseconds)
    #expect(bench.openRemaining == max(.zero, look.end - look.uptime))
    bench.advance(by: max(.zero, look.end - look.uptime))
    #expect(bench.permit()?.kind == .probe)
  }

  @Test(arguments: looks)
  func `a reboot never leaves more than the whole of a mode's time`(look: Look) {
    var bench = Bench()
    bench.set(.forcedOpen, for: .seconds(30))
    Self.reboot(&bench, uptime: look.uptime, passed: look.passed)
    #expect(bench.record.mode.until?.nanoseconds == look.end.inNanoseconds)
    bench.advance(by: max(.zero, look.end - look.uptime))
    #expect(bench.permit()?.kind == .normal)
  }

  @Test func `a mode without an end survives a reboot`() {
    var bench = Bench()
    bench.set(.forcedOpen)
    let mode = bench.record.mode
    Self.reboot(&bench, uptime: .zero, passed: Self.year)
    #expect(bench.record.mode == mode)
  }

  @Test func `an open time whose beginning is unknown is counted from the boot`() {
    var bench = Bench()
    bench.trip()
    bench.record.openedAtMilliseconds = nil
    Self.reboot(&bench, uptime: .seconds(10), passed: .seconds(1))
    #expect(bench.openRemaining == .seconds(20))
  }

  @Test(arguments: [Int64.min, .max])
  func `a wall clock at either end of its range does no harm at a reboot`(wall: Int64) {
    var bench = Bench()
    bench.trip()
    bench.now.wallMilliseconds = wall
    Self.reboot(&bench, uptime: .zero, passed: .zero)
    #expect(bench.openRemaining == (wall < 0 ? .seconds(30) : .zero))
  }

  @Test func `a reboot ends every lease and frees every slot`() {
    var bench = Bench(BreakerPolicy(successesToClose: 2))
    bench.becomeDue()
    bench.call(.success)
    let probe = bench.permit()
    Self.reboot(&bench, uptime: .seconds(5), passed: .seconds(60))
    #expect(bench.state == .halfOpen)
    #expect(bench.record.leases.isEmpty)
    #expect(bench.report(.success, for: probe) == .refused)
    #expect(bench.permit()?.lease == 3)
    #expect(bench.record.probeSuccesses == 1)
  }

  @Test func `a reboot forgets instants and windows and keeps the count of failures in a row`() {
    let conditions = BreakerPolicy(
      maxFailures: 9, failures: 9, within: .seconds(60), failureRate: 0.5, last: 9, reporters: 2,
      lumping: .seconds(1))
    for isTimed in [false, true] {
      var bench = Bench(conditions)
      if isTimed { (bench.policy.window, bench.policy.last) = (.seconds(60), nil) }
      bench.call(.failure())
      let before = bench.record
      Self.reboot(&bench, uptime: .seconds(5), passed: .seconds(60))
      var expected = before
      expected.streakStartedAt = Instant(nanoseconds: 0)
      expected.lastCountedFailureAt = nil
      expected.failureTimes = []
      expected.reporters = []
      expected.window = .none
      #expect(bench.record == expected)
    }
  }

  @Test func `a streak of failures continues after a reboot`() {
    var bench = Bench(BreakerPolicy(maxFailures: 3))
    bench.calls(2, .failure())
    Self.reboot(&bench, uptime: .seconds(5), passed: .seconds(60))
    bench.call(.failure())
    #expect(bench.state == .open)
  }

  @Test(arguments: [(Duration.seconds(10) - .nanosecond, 20), (.seconds(10), 10)])
  func `healthy time is counted from the boot after a reboot`(uptime: Duration, seconds: Int) {
    var bench = Bench(BreakerPolicy(openFor: .seconds(10), openMultiplier: 2))
    bench.becomeDue()
    bench.call(.success)
    Self.reboot(&bench, uptime: uptime, passed: Self.year)
    #expect(bench.record.closedAt == Instant(nanoseconds: 0))
    bench.trip()
    #expect(bench.openRemaining == .seconds(seconds))
  }

  @Test func `a reboot leaves a new record unchanged`() {
    #expect(BreakerRecord().carriedOver(to: .start) == BreakerRecord())
  }
}
