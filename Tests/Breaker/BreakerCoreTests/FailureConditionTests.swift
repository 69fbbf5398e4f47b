@testable import BreakerCore
import Testing

@Suite struct FailureConditionTests {
  @Test(arguments: [1, 2, 5])
  func `the Nth consecutive failure opens the breaker, and the one before does not`(limit: Int) {
    var bench = Bench(BreakerPolicy(maxFailures: limit))
    bench.calls(limit - 1, .failure())
    #expect(bench.state == .closed)
    #expect(bench.record.consecutiveFailures == Int64(limit - 1))
    bench.call(.failure())
    #expect(bench.state == .open)
    #expect(bench.events.last?.reason == CountedNoun.text(limit, "consecutive failure"))
  }

  @Test func `a success resets the count of consecutive failures, and an ignored call does not`() {
    var bench = Bench(BreakerPolicy(maxFailures: 3))
    bench.calls(2, .failure())
    bench.call(.success)
    #expect(bench.record.consecutiveFailures == 0)
    bench.calls(2, .failure())
    bench.call(.ignored)
    #expect(bench.state == .closed)
    bench.call(.failure())
    #expect(bench.state == .open)
  }

  @Test func `five consecutive failures open a breaker that has no condition set`() {
    var bench = Bench()
    bench.calls(4, .failure())
    #expect(bench.state == .closed)
    bench.call(.failure())
    #expect(bench.state == .open)
  }

  @Test func `a failure counts while it is younger than within, and no longer`() {
    let policy = BreakerPolicy(failures: 3, within: .seconds(10))
    for (age, expected) in [
      (Duration.seconds(10) - .nanosecond, BreakerState.open), (.seconds(10), .closed),
    ] {
      var bench = Bench(policy)
      bench.call(.failure())
      bench.advance(by: age)
      bench.calls(2, .failure())
      #expect(bench.state == expected)
    }
  }

  @Test func `failures within a time are counted across successes, and old ones drop out`() {
    var bench = Bench(BreakerPolicy(failures: 2, within: .seconds(10)))
    bench.call(.failure())
    bench.advance(by: .seconds(10))
    bench.call(.failure())
    bench.call(.success)
    #expect(bench.state == .closed)
    bench.advance(by: .seconds(9))
    bench.call(.failure())
    #expect(bench.events.last?.reason == "2 failures within 10s")
  }

  @Test func `no more failure times are kept than the policy needs`() {
    var bench = Bench(BreakerPolicy(failures: 3, within: .nanoseconds(1_000)))
    for _ in 0..<5 {
      bench.advance(by: .seconds(1))
      bench.call(.failure())
    }
    #expect(bench.record.failureTimes.count == 3)
    bench.policy = BreakerPolicy()
    bench.record.consecutiveFailures = 0
    bench.call(.failure())
    #expect(bench.record.failureTimes.isEmpty)
  }

  @Test(arguments: [(14, 7, 0.5), (100, 7, 0.07), (3, 1, 0.333_333), (10, 10, 1.0), (10, 1, 0.1)])
  func `a breaker opens when its failure rate is reached exactly`(
    calls: Int, failures: Int, rate: Double
  ) {
    let policy = BreakerPolicy(failureRate: BreakerPolicy.Rate(rate), last: calls, minCalls: calls)
    for (failed, expected) in [(failures - 1, BreakerState.closed), (failures, .open)] {
      var bench = Bench(policy)
      bench.calls(calls - failed, .success)
      bench.calls(failed, .failure())
      #expect(bench.state == expected, "\(failed) of \(calls) at \(rate)")
    }
  }

  @Test func `a breaker stays closed when the share of failures is a millionth below its rate`() {
    let rate = BreakerPolicy.Rate(partsPerMillion: 70_001)
    var bench = Bench(BreakerPolicy(failureRate: rate, last: 100, minCalls: 100))
    bench.calls(93, .success)
    bench.calls(7, .failure())
    #expect(bench.state == .closed)
  }

  @Test(arguments: [(nil, nil, 10), (nil, 4, 4), (nil, 50, 10), (3, nil, 3), (20, 50, 20)])
  func `a rate is not judged over fewer calls than min-calls`(
    minCalls: Int?, last: Int?, needed: Int
  ) {
    let window: Duration? = last == nil ? .seconds(60) : nil
    var bench = Bench(
      BreakerPolicy(failureRate: 0.5, window: window, last: last, minCalls: minCalls))
    bench.calls(needed - 1, .failure())
    #expect(bench.state == .closed)
    bench.call(.failure())
    #expect(bench.state == .open)
    #expect(bench.events.last?.reason == "\(needed) of \(needed) calls failed")
  }

  @Test func `a success never opens the breaker, and the next failure is judged`() {
    var bench = Bench(BreakerPolicy(failureRate: 0.5, last: 10))
    bench.calls(9, .failure())
    bench.call(.success)
    #expect(bench.state == .closed)
    bench.call(.failure())
    #expect(bench.events.last?.reason == "9 of 10 calls failed")
  }

  @Test func `any one of several conditions opens the breaker`() {
    let policy = BreakerPolicy(
      maxFailures: 4, failures: 3, within: .seconds(5), failureRate: 0.5, last: 10)
    var bench = Bench(policy)
    bench.calls(3, .failure())
    #expect(bench.events.last?.reason == "3 failures within 5s")
    bench = Bench(policy)
    for _ in 0..<4 {
      bench.call(.failure())
      bench.advance(by: .seconds(4))
    }
    #expect(bench.events.last?.reason == "4 consecutive failures")
    bench = Bench(policy)
    for _ in 0..<5 {
      bench.call(.success)
      bench.call(.failure())
      bench.advance(by: .seconds(4))
    }
    #expect(bench.events.last?.reason == "5 of 10 calls failed")
  }

  @Test func `one permanent failure opens the breaker for the policy's open time`() {
    var bench = Bench(BreakerPolicy(openFor: .seconds(7)))
    bench.call(.permanentFailure(error: "revoked"))
    #expect(bench.openRemaining == .seconds(7))
    #expect(bench.events.last?.reason == "a permanent failure")
    #expect(bench.record.lastError == "revoked")
  }

  @Test func `a failure that names no open time is an ordinary one`() {
    #expect(
      CallOutcome.failure(opensFor: nil, error: "HTTP 503") == .failure(error: "HTTP 503"))
    #expect(
      CallOutcome.failure(opensFor: .seconds(5))
        == .failure(CallOutcome.Failure(.opens(for: .seconds(5)))))
  }
}

@Suite struct CallOutcomeTests {
  @Test func `a failure of any kind is a failure, and no other outcome is`() {
    for failure in [
      CallOutcome.failure(), .permanentFailure(), .failure(opensFor: .seconds(1)),
    ] {
      #expect(failure.isFailure)
    }
    #expect(!CallOutcome.success.isFailure)
    #expect(!CallOutcome.ignored.isFailure)
  }
}
