import Testing

@testable import BreakerCore

@Suite struct ReporterTests {
  static let outcomes: [Outcome] = [
    .failure(), .permanentFailure(), .failure(opensFor: .seconds(60)),
  ]

  /// One policy for each kind of condition, each met by the first failure but for its reporters.
  static let policies = [
    BreakerPolicy(maxFailures: 1, reporters: 2),
    BreakerPolicy(failures: 1, within: .seconds(60), reporters: 2),
    BreakerPolicy(failureRate: 0.5, window: .seconds(60), minCalls: 1, reporters: 2),
    BreakerPolicy(failureRate: 0.5, last: 10, minCalls: 1, reporters: 2),
  ]

  /// Just less than ten seconds, and ten: a report that old is forgotten.
  static let tenSeconds: [(age: Duration, expected: BreakerState)] = [
    (.seconds(10) - .nanosecond, .open), (.seconds(10), .closed),
  ]

  @Test(arguments: policies, outcomes)
  func `one process alone cannot open, a second one can`(policy: BreakerPolicy, outcome: Outcome) {
    var bench = Bench(policy)
    for _ in 0..<9 { bench.call(outcome, by: .process(1)) }
    #expect(bench.state == .closed)
    bench.call(outcome, by: .process(2))
    #expect(bench.state == .open)
  }

  @Test(arguments: policies)
  func `reports from nobody in particular are nobody's`(policy: BreakerPolicy) {
    var bench = Bench(policy)
    for _ in 0..<9 { bench.call(.failure(), by: nil) }
    bench.call(.failure(), by: .process(1))
    #expect(bench.state == .closed)
    #expect(bench.record.reporters.count == 1)
  }

  @Test(arguments: [1, 3])
  func `a process that was given the number of another is another`(pid: Int32) {
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
  func `a report as old as the time does not count`(age: Duration, expected: BreakerState) {
    var bench = Bench(BreakerPolicy(failures: 2, within: .seconds(10), reporters: 2))
    bench.call(.failure(), by: .process(2))
    bench.advance(by: age)
    bench.calls(3, .failure())
    #expect(bench.state == expected)
  }

  @Test(arguments: tenSeconds)
  func `a report counts for as long as its bucket`(age: Duration, expected: BreakerState) {
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
  func `a report counts for as long as its call is among the last`(
    between: Int, expected: BreakerState
  ) {
    var bench = Bench(BreakerPolicy(failureRate: 0.1, last: 10, reporters: 2))
    bench.call(.failure(), by: .process(2))
    bench.calls(between, .success)
    bench.call(.failure())
    #expect(bench.state == expected)
  }

  @Test func `a slow call is no report of a failure, nor a failure one of a slow call`() {
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
    #expect(bench.events.last?.reason == "10 of 10 calls were slow")
  }

  @Test func `a failure that was slow is a report of both`() {
    var bench = Bench(
      BreakerPolicy(slowRate: 0.5, slowAfter: .seconds(1), last: 10, minCalls: 2, reporters: 2))
    bench.call(.failure(), elapsed: .seconds(1), by: .process(2))
    #expect(bench.record.reporters.map(\.evidence) == [.failure, .slowCall])
    bench.call(.success, elapsed: .seconds(1))
    #expect(bench.state == .open)
  }

  @Test func `only the latest processes that can matter are remembered`() {
    var bench = Bench(BreakerPolicy(maxFailures: 99, reporters: 3))
    for number in 1...5 { bench.call(.failure(), by: .process(number)) }
    bench.call(.failure(), by: .process(3))
    let remembered = bench.record.reporters.map(\.process)
    #expect(remembered == [4, 5, 3].map { ProcessIdentity.process($0) })
    bench.policy.reporters = 1
    bench.call(.failure())
    #expect(bench.record.reporters.isEmpty)
  }

  @Test func `another window starts without the reports on the calls of the one before`() {
    var bench = Bench(BreakerPolicy(failureRate: 0.1, last: 20, minCalls: 2, reporters: 2))
    bench.calls(19, .success)
    bench.call(.failure(), by: .process(2))
    bench.policy.last = 10
    bench.calls(9, .failure())
    #expect(bench.state == .closed)
    bench.call(.failure(), by: .process(2))
    #expect(bench.state == .open)
  }

  @Test func `no window covers no report`() {
    let reporter = Reporter(process: .worker, at: Moment.start.boot, call: 1)
    #expect(!CallWindow.none.covers(reporter, at: Moment.start.boot))
  }
}
