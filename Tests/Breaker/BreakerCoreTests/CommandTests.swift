import Testing

@testable import BreakerCore

@Suite struct CommandTests {
  @Test func `time alone changes a state only from half-open to open`() {
    for state in BreakerState.allCases {
      for other in BreakerState.allCases {
        let isPossible = state == other || (state == .halfOpen && other == .open)
        #expect(state.mayBecome(other) == isPossible)
      }
    }
  }

  @Test(arguments: [
    (Duration?.none, 30), (.seconds(5), 5), (.zero, 0), (.seconds(-1), 0),
    (.seconds(86_400 * 400), 86_400 * 365),
  ])
  func `a trip opens for the given time, whatever open-max is`(time: Duration?, seconds: Int) {
    var bench = Bench(BreakerPolicy(openMax: .seconds(30)))
    bench.trip(for: time)
    #expect(bench.openRemaining == .seconds(seconds))
    #expect(bench.events.last?.reason == "tripped by hand")
    #expect(bench.record.trips == 1)
  }

  @Test func `the reason of a trip is told until the state changes`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, openFor: .seconds(9)))
    func told(_ bench: inout Bench) -> String? {
      guard case .rejected(let rejection) = bench.assess() else { return "permitted" }
      return rejection.reason
    }
    bench.trip(for: .seconds(9), reason: "new disks")
    #expect(told(&bench) == "new disks")
    bench.trip(for: .seconds(9))
    #expect(told(&bench) == nil, "an extension has a reason of its own")
    bench.trip(for: .seconds(9), reason: "more disks")
    bench.advance(by: .seconds(9))
    _ = bench.request()
    #expect(bench.record.state == .halfOpen)
    #expect(told(&bench) == nil)
    bench.trip(reason: "no disks")
    bench.reset()
    bench.call(.failure(error: nil))
    #expect(bench.record.state == .open)
    #expect(told(&bench) == nil)
  }

  @Test func `a reset clears the counts and keeps the history`() {
    var bench = Bench(
      BreakerPolicy(
        maxFailures: 3, failures: 3, within: .seconds(9), failureRate: 0.5, last: 9,
        reporters: 2, lumping: .microseconds(1), openMultiplier: 2))
    bench.becomeDue()
    bench.call(.success)
    bench.call(.failure(error: "refused"))
    let totals = bench.record.totals
    let running = bench.permit()
    bench.reset(reason: "fixed")
    var clean = BreakerRecord()
    clean.generation = 5
    clean.lastLease = 1
    clean.usualProbeNanoseconds = 0
    clean.trips = 1
    clean.outageTimes = [Moment.start.boot]
    clean.generationOfState = bench.record.generation
    clean.holds.least = bench.record.generation
    clean.holds.endedAtMilliseconds = bench.now.wallMilliseconds
    clean.totals = totals
    clean.lastError = "refused"
    clean.closedAt = bench.now.boot
    clean.tally.since = bench.now.boot
    clean.tally.nanoseconds.open = 30_000_000_000
    clean.tally.entries = PerState(repeating: 1)
    clean.changedAtMilliseconds = bench.now.wallMilliseconds
    clean.openedAtMilliseconds = Moment.start.wallMilliseconds
    clean.lastFailureAtMilliseconds = bench.now.wallMilliseconds
    #expect(bench.record == clean)
    #expect(bench.report(.failure(), for: running) == .outdated)
    #expect(bench.record.consecutiveFailures == 0)
    #expect(
      bench.events.last
        == BreakerEvent(
          .reset(from: .closed), reason: "fixed",
          atMilliseconds: bench.now.wallMilliseconds))
  }

  @Test func `the open time starts small again after a reset`() {
    var bench = Bench(BreakerPolicy(openMultiplier: 2))
    bench.becomeDue()
    bench.call(.failure())
    #expect(bench.openRemaining == .seconds(60))
    bench.reset()
    bench.trip()
    #expect(bench.openRemaining == .seconds(30))
  }

  @Test func `a mode records who set it, when, why and for how long`() {
    var bench = Bench()
    bench.set(.forcedOpen, for: .seconds(60), reason: "drill", by: "ann")
    var expected = ModeSetting()
    expected.mode = .forcedOpen
    expected.reason = "drill"
    expected.setBy = "ann"
    expected.setAtMilliseconds = bench.now.wallMilliseconds
    expected.lengthNanoseconds = Duration.seconds(60).inNanoseconds
    expected.until = bench.now.boot.advanced(by: expected.lengthNanoseconds)
    #expect(bench.record.mode == expected)
    bench.set(.automatic, for: .seconds(60), reason: "over")
    #expect(bench.record.mode == ModeSetting())
    #expect(bench.events.map(\.reason) == ["drill", "over"])
  }

  @Test(arguments: [(Duration.seconds(-9), 0), (.seconds(86_400 * 400), 86_400 * 365)])
  func `the time of a mode is limited to between zero and a year`(time: Duration, seconds: Int) {
    var bench = Bench()
    bench.set(.forcedOpen, for: time)
    #expect(bench.record.mode.until?.since(bench.now.boot) == Int64(seconds) * 1_000_000_000)
  }

  @Test(arguments: BreakerMode.allCases.filter { $0 != .automatic })
  func `a mode ends exactly when its time is over`(mode: BreakerMode) {
    var bench = Bench()
    bench.set(mode, for: .seconds(60))
    bench.advance(by: .seconds(60) - .nanosecond)
    #expect(bench.record.mode(at: bench.now.boot) == mode)
    bench.advance(by: .nanosecond)
    #expect(bench.record.mode(at: bench.now.boot) == .automatic)
    _ = bench.request()
    #expect(bench.record.mode == ModeSetting())
    #expect(bench.events.last?.reason == "the mode has expired")
    let count = bench.events.count
    _ = bench.request()
    #expect(bench.events.count == count)
  }

  @Test(arguments: [(Duration?.none, Duration?.none), (.seconds(60), .seconds(60))])
  func `a forced rejection names the end of the mode if the mode has one`(
    time: Duration?, expected: Duration?
  ) {
    var bench = Bench()
    bench.set(.forcedOpen, for: time)
    let rejection = Rejection(state: .closed, mode: .forcedOpen, retryAfter: expected)
    #expect(bench.assess() == .rejected(rejection))
    #expect(bench.request().rejection == rejection)
  }

  @Test(arguments: [(10, 30), (30, 30), (40, 40)])
  func `a forced rejection names the open time if it outlasts the mode`(mode: Int, all: Int) {
    var bench = Bench(BreakerPolicy(openFor: .seconds(30)))
    bench.trip()
    bench.set(.forcedOpen, for: .seconds(mode))
    #expect(bench.request().rejection?.retryAfter == .seconds(all))
  }

  @Test func `reasons and errors from outside are cut to 1 KiB`() {
    let long = String(repeating: "é", count: 600)
    let cut = String(repeating: "é", count: 512)
    var bench = Bench()
    bench.trip(reason: long)
    bench.reset(reason: long)
    bench.set(.observe, reason: long)
    bench.call(.failure(error: long))
    #expect(bench.events.map(\.reason) == [cut, cut, cut])
    #expect(bench.record.mode.reason == cut)
    #expect(bench.record.lastError == cut)
  }

  @Test func `every failure, even an outdated one, replaces the last failure and its error`() {
    var bench = Bench()
    let permit = bench.permit()
    bench.call(.failure(error: "first"))
    bench.reset()
    bench.advance(by: .seconds(1))
    bench.report(.failure(error: "late"), for: permit)
    #expect(bench.record.lastError == "late")
    #expect(bench.record.lastFailureAtMilliseconds == bench.now.wallMilliseconds)
    bench.call(.failure())
    #expect(bench.record.lastError == nil)
  }
}
