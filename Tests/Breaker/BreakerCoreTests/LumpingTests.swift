import Testing

@testable import BreakerCore

@Suite struct LumpingTests {
  @Test(arguments: [(Duration.seconds(1) - .nanosecond, 1), (.seconds(1), 2)])
  func `failures closer together than the gap count as one`(gap: Duration, counted: Int) {
    var bench = Bench(BreakerPolicy(failures: 9, within: .seconds(60), lumping: .seconds(1)))
    bench.call(.failure())
    bench.advance(by: gap)
    bench.call(.failure())
    #expect(bench.record.consecutiveFailures == Int64(counted))
    #expect(bench.record.failureTimes.count == counted)
    #expect(bench.record.totals.failures == 2)
  }

  @Test func `the gap starts at the last failure that counted, so a steady stream counts`() {
    var bench = Bench(BreakerPolicy(maxFailures: 3, lumping: .seconds(1)))
    bench.call(.failure())
    for _ in 0..<3 {
      bench.advance(by: .milliseconds(500))
      bench.call(.failure())
    }
    #expect(bench.record.consecutiveFailures == 2)
    bench.advance(by: .milliseconds(500))
    bench.call(.failure())
    #expect(bench.state == .open)
  }

  @Test func `a lumped failure does not count as a call in the window`() {
    var bench = Bench(BreakerPolicy(failureRate: 1.0, last: 10, lumping: .seconds(1)))
    bench.calls(20, .failure())
    #expect(bench.record.window.counts(at: bench.now.boot).calls == 1)
    #expect(bench.state == .closed)
  }

  @Test func `failures are lumped even with a success between them`() {
    var bench = Bench(BreakerPolicy(maxFailures: 2, lumping: .seconds(1)))
    bench.call(.failure())
    bench.call(.success)
    bench.call(.failure())
    #expect(bench.record.consecutiveFailures == 0)
  }

  @Test func `a lumped failure still counts as a report by its process`() {
    var bench = Bench(BreakerPolicy(maxFailures: 1, reporters: 2, lumping: .seconds(1)))
    bench.call(.failure(), by: .process(1))
    #expect(bench.state == .closed)
    bench.call(.failure(), by: .process(2))
    #expect(bench.state == .open)
    #expect(bench.record.totals.failures == 2)
  }

  @Test
  func `lumped permanent failures after a success open the breaker if enough processes report`() {
    var bench = Bench(BreakerPolicy(reporters: 2, lumping: .seconds(1)))
    bench.call(.failure(), by: .process(1))
    bench.call(.success)
    bench.advance(by: .nanosecond)
    bench.call(.permanentFailure(), by: .process(2))
    #expect(bench.state == .closed)
    bench.call(.permanentFailure(), by: .process(3))
    #expect(bench.state == .open)
  }

  @Test func `a success after a lumped failure ends the streak, so it is not only counted`() {
    var bench = Bench(BreakerPolicy(lumping: .seconds(1)))
    bench.calls(1, .failure())
    bench.call(.success)
    bench.call(.failure())
    guard let permit = bench.permit() else { return }
    #expect(
      !bench.record.isOnlyCounted(
        .success, for: permit, elapsed: nil, at: bench.now.boot, policy: bench.policy,
        isWindowElsewhere: false))
    bench.report(.success, for: permit)
    #expect(bench.record.streakStartedAt == nil)
  }

  @Test func `a permanent failure opens the breaker even if it is lumped`() {
    var bench = Bench(BreakerPolicy(lumping: .seconds(1)))
    bench.call(.failure())
    bench.call(.permanentFailure())
    #expect(bench.state == .open)
  }

  @Test func `a reset forgets the failure that later ones would be lumped with`() {
    var bench = Bench(BreakerPolicy(lumping: .seconds(1)))
    bench.call(.failure())
    bench.reset()
    bench.call(.failure())
    #expect(bench.record.consecutiveFailures == 1)
  }
}
