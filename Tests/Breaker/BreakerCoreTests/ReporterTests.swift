import Testing

@testable import BreakerCore

@Suite struct ReporterTests {
  static let outcomes: [CallOutcome] = [
    .failure(), .permanentFailure(), .failure(opensFor: .seconds(60)),
  ]

  /// One policy for each kind of condition, which the first failure meets except for `reporters`.
  static let policies = [
    BreakerPolicy(maxFailures: 1, reporters: 2),
    BreakerPolicy(failures: 1, within: .seconds(60), reporters: 2),
    BreakerPolicy(failureRate: 0.5, window: .seconds(60), minCalls: 1, reporters: 2),
    BreakerPolicy(failureRate: 0.5, last: 10, minCalls: 1, reporters: 2),
  ]

  /// Just under ten seconds, and ten seconds, at which a report is forgotten.
  static let tenSeconds: [(age: Duration, expected: BreakerState)] = [
    (.seconds(10) - .nanosecond, .open), (.seconds(10), .closed),
  ]

  @Test(arguments: policies, outcomes)
  func `one process alone cannot open a breaker that needs two reporters, and a second can`(
    policy: BreakerPolicy, outcome: CallOutcome
  ) {
    var bench = Bench(policy)
    for _ in 0..<9 { bench.call(outcome, by: .process(1)) }
    #expect(bench.state == .closed)
    bench.call(outcome, by: .process(2))
    #expect(bench.state == .open)
  }

  @Test(arguments: policies)
  func `a report without a process does not count towards the reporters`(policy: BreakerPolicy) {
    var bench = Bench(policy)
    for _ in 0..<9 { bench.call(.failure(), by: nil) }
    bench.call(.failure(), by: .process(1))
    #expect(bench.state == .closed)
    #expect(bench.record.reporters.count == 1)
  }

  @Test(arguments: [1, 3])
  func `a process that reuses the pid of another counts as a different reporter`(pid: Int32) {
    var bench = Bench(BreakerPolicy(maxFailures: 1, reporters: 3))
    for (ticks, namespace) in [(1, 1), (2, 1), (1, 2)] as [(UInt64, UInt64)] {
      #expect(bench.state == .closed)
      bench.call(
        .failure(), by: ProcessIdentity(pid: pid, startTicks: ticks, pidNamespace: namespace))
    }
    #expect(bench.state == .open)
  }

  @Test func `a report before the last success does not count for consecutive failures`() {
    var bench = Bench(BreakerPolicy(maxFailures: 2, reporters: 2))
    bench.call(.failure(), by: .process(1))
    bench.call(.success)
    bench.advance(by: .nanosecond)
    bench.calls(5, .failure())
    bench.call(.permanentFailure(), by: .worker)
    #expect(bench.state == .closed)
    bench.call(.failure(), by: .process(2))
    #expect(bench.state == .open)
  }

  @Test(arguments: tenSeconds)
  func `a report no longer counts once it is as old as within`(
    age: Duration, expected: BreakerState
  ) {
    var bench = Bench(BreakerPolicy(failures: 2, within: .seconds(10), reporters: 2))
    bench.call(.failure(), by: .process(2))
    bench.advance(by: age)
    bench.calls(3, .failure())
    #expect(bench.state == expected)
  }

  @Test(arguments: tenSeconds)
  func `a report counts for as long as its bucket is in the window`(
    age: Duration, expected: BreakerState
  ) {
    for offset in [Duration.zero, .milliseconds(999)] {
      var bench = Bench(
        BreakerPolicy(failureRate: 0.1, window: .seconds(10), minCalls: 2, reporters: 2))
      bench.advance(by: offset)
      bench.call(.failure(), by: .process(2))
      bench.advance(by: age - offset)
      bench.calls(2, .failure())
      #expect(bench.state == expected)
    }
  }

  @Test(arguments: [(8, BreakerState.open), (9, .closed)])
  func `a report counts for as long as its call is among the last N`(
    between: Int, expected: BreakerState
  ) {
    var bench = Bench(BreakerPolicy(failureRate: 0.1, last: 10, reporters: 2))
    bench.call(.failure(), by: .process(2))
    bench.calls(between, .success)
    bench.call(.failure())
    #expect(bench.state == expected)
  }

  @Test func `a slow call does not report a failure, and a failure does not report a slow call`() {
    var bench = Bench(
      BreakerPolicy(
        failures: 2, within: .seconds(60), failureRate: 0.5, slowRate: 0.5, slowAfter: .seconds(1),
        last: 10, minCalls: 4, reporters: 2))
    bench.call(.success, elapsed: .seconds(1), by: .process(2))
    bench.calls(5, .failure())
    #expect(bench.state == .closed)
    for _ in 0..<9 { bench.call(.success, elapsed: .seconds(1), by: .process(2)) }
    #expect(bench.state == .closed)
    bench.call(.success, elapsed: .seconds(1))
    #expect(bench.events.last?.reason == "10 of 10 calls took at least slow-after")
  }

  @Test func `a slow failure reports both a failure and a slow call`() {
    var bench = Bench(
      BreakerPolicy(slowRate: 0.5, slowAfter: .seconds(1), last: 10, minCalls: 2, reporters: 2))
    bench.call(.failure(), elapsed: .seconds(1), by: .process(2))
    #expect(bench.record.reporters.map(\.evidence) == [.failure, .slowCall])
    bench.call(.success, elapsed: .seconds(1))
    #expect(bench.state == .open)
  }

  @Test func `only as many of the latest reporters are remembered as can matter`() {
    var bench = Bench(BreakerPolicy(maxFailures: 99, reporters: 3))
    for number in 1...5 { bench.call(.failure(), by: .process(number)) }
    bench.call(.failure(), by: .process(3))
    let remembered = bench.record.reporters.map(\.process)
    #expect(remembered == [4, 5, 3].map { ProcessIdentity.process($0) })
    bench.policy.reporters = 1
    bench.call(.failure())
    #expect(bench.record.reporters.isEmpty)
  }

  @Test func `a new window starts without the reports on calls of the old one`() {
    var bench = Bench(BreakerPolicy(failureRate: 0.1, last: 20, minCalls: 2, reporters: 2))
    bench.calls(19, .success)
    bench.call(.failure(), by: .process(2))
    bench.policy.last = 10
    bench.calls(9, .failure())
    #expect(bench.state == .closed)
    bench.call(.failure(), by: .process(2))
    #expect(bench.state == .open)
  }

  @Test func `without a window, no report is covered`() {
    let reporter = Reporter(process: .worker, at: Moment.start.boot, call: 1)
    #expect(!CallWindow.none.covers(reporter, at: Moment.start.boot))
  }
}
