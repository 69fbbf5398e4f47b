import Testing

@testable import BreakerCore

@Suite struct OpenTimeTests {
  @Test(arguments: [BreakerMode.automatic, .observe])
  func `the open time ends exactly on time, and the next caller is a probe`(mode: BreakerMode) {
    var bench = Bench(BreakerPolicy(openFor: .seconds(30)))
    bench.set(mode)
    bench.trip()
    bench.advance(by: .seconds(30) - .nanosecond)
    #expect(bench.openRemaining == .nanosecond)
    #expect(bench.permit()?.kind != .probe)
    #expect(bench.state == .open)
    bench.advance(by: .nanosecond)
    #expect(bench.openRemaining == .zero)
    #expect(bench.assess() == .undecided)
    #expect(bench.permit()?.kind == .probe)
    #expect(bench.transitions == ["closed>open", "open>half_open"])
  }

  @Test func `a rejection says how much longer the breaker stays open`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(30)))
    bench.trip()
    bench.advance(by: .seconds(12))
    let expected = Rejection(state: .open, mode: .automatic, retryAfter: .seconds(18))
    #expect(bench.request().rejection == expected)
  }

  @Test func `a breaker without calls stays open however much time passes`() {
    var bench = Bench()
    bench.trip()
    bench.advance(by: .seconds(86_400 * 400))
    #expect(bench.state == .open)
    #expect(bench.openRemaining == .zero)
  }

  @Test func `only an open breaker has an open time`() {
    var bench = Bench()
    #expect(bench.openRemaining == nil)
    bench.becomeDue()
    _ = bench.permit()
    #expect(bench.openRemaining == nil)
    bench.record.state = .open
    bench.record.openUntil = nil
    #expect(bench.openRemaining == .zero)
  }

  @Test func `the open time grows with each trip in a row, up to the maximum`() {
    var bench = Bench(
      BreakerPolicy(
        maxFailures: 1, openFor: .seconds(10), openMultiplier: 1.5, openMax: .seconds(30)))
    bench.call(.failure())
    for seconds in [10, 15, 22.5, 30, 30, 30] {
      #expect(bench.openRemaining == .seconds(seconds))
      bench.advance(by: .seconds(seconds))
      bench.call(.failure())
    }
  }

  @Test func `the growth of the open time is bounded`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, openFor: .seconds(1), openMultiplier: 1_000))
    for _ in 0..<99 {
      bench.becomeDue()
      bench.call(.failure())
    }
    #expect(bench.record.growth == 64)
    #expect(bench.openRemaining == BreakerPolicy.longestDuration)
  }

  /// Open times of 10 s, 20 s and 40 s come first; healthy time of the same length undoes each.
  @Test(arguments: [
    (Duration.zero, 80), (.seconds(40) - .nanosecond, 80), (.seconds(40), 40),
    (.seconds(60) - .nanosecond, 40), (.seconds(60), 20), (.seconds(70) - .nanosecond, 20),
    (.seconds(70), 10), (.seconds(86_400), 10),
  ])
  func `the growth of the open time decays with healthy time after a close`(
    healthy: Duration, next: Int
  ) {
    var bench = Bench(
      BreakerPolicy(maxFailures: 1, openFor: .seconds(10), openMultiplier: 2))
    bench.call(.failure())
    for seconds in [10, 20, 40] {
      #expect(bench.openRemaining == .seconds(seconds))
      bench.advance(by: .seconds(seconds))
      bench.call(seconds == 40 ? .success : .failure())
    }
    #expect(bench.state == .closed)
    bench.advance(by: healthy)
    bench.call(.failure())
    #expect(bench.openRemaining == .seconds(next))
  }

  @Test func `time spent half-open or open is not healthy time`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, openFor: .seconds(10), openMultiplier: 2))
    bench.call(.failure())
    bench.advance(by: .seconds(86_400))
    bench.call(.failure())
    #expect(bench.openRemaining == .seconds(20))
    bench.advance(by: .seconds(20))
    let probe = bench.permit()
    bench.advance(by: .seconds(29))
    bench.report(.failure(), for: probe)
    #expect(bench.openRemaining == .seconds(40))
  }

  @Test(arguments: [(0.0, 8), (0.25, 9), (0.5, 10), (0.75, 11)])
  func `jitter varies the open time by up to its share in either direction`(
    draw: Double, seconds: Int
  ) {
    var bench = Bench(BreakerPolicy(openFor: .seconds(10), jitter: 0.2))
    bench.jitter = draw
    bench.trip()
    #expect(bench.openRemaining == .seconds(seconds))
  }

  @Test func `jitter never takes the open time beyond open-max or down to zero`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(10), openMax: .seconds(10), jitter: 0.5))
    bench.jitter = 0.999
    bench.trip()
    #expect(bench.openRemaining == .seconds(10))
    bench = Bench(BreakerPolicy(openFor: .microseconds(1), jitter: 0.999_999))
    bench.jitter = 0
    bench.trip()
    #expect(bench.openRemaining == .nanosecond)
  }

  @Test(arguments: [
    (Duration.seconds(-5), Duration?.none, 0), (.zero, nil, 0), (.seconds(90), nil, 90),
    (.seconds(90), .seconds(60), 60), (.seconds(86_400), nil, 86_400),
    (.seconds(86_401), nil, 86_400), (.seconds(Int64.max), nil, 86_400),
    (.seconds(86_401), .seconds(90_000), 86_401),
  ])
  func `an open time that a failure names is limited to open-max, or to a day without one`(
    named: Duration, openMax: Duration?, seconds: Int
  ) {
    let policy = BreakerPolicy(openFor: .seconds(30), openMax: openMax, jitter: 0.5)
    for isProbe in [false, true] {
      var bench = Bench(policy)
      bench.jitter = 0
      if isProbe { bench.becomeDue() }
      bench.call(.failure(opensFor: named))
      #expect(bench.state == .open)
      #expect(bench.openRemaining == .seconds(seconds))
    }
  }
}
