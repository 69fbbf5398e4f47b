import Testing

@testable import BreakerCore

@Suite struct WindowTests {
  @Test(arguments: [
    (Duration.zero, 1), (.seconds(9), 1), (.seconds(10) - .nanosecond, 1), (.seconds(10), 0),
    (.seconds(20), 0), (.seconds(100), 0),
  ])
  func `a call at the start of a bucket is seen for the whole window`(age: Duration, seen: Int) {
    var window = TimeWindow(length: Duration.seconds(10).inNanoseconds)
    window.add(isFailure: true, isSlow: true, at: Moment.start.boot)
    let counts = window.counts(at: Moment.start.boot.advanced(by: age.inNanoseconds))
    #expect([counts.calls, counts.failures, counts.slow].map { Int($0) } == [seen, seen, seen])
  }

  @Test(arguments: [(Duration.seconds(9), 1), (.seconds(9) + .nanosecond, 0)])
  func `a call at the end of a bucket is seen for nine tenths of the window`(
    age: Duration, seen: Int
  ) {
    var window = TimeWindow(length: Duration.seconds(10).inNanoseconds)
    let end = Moment.start.boot.advanced(by: 999_999_999)
    window.add(isFailure: false, isSlow: false, at: end)
    let counts = window.counts(at: end.advanced(by: age.inNanoseconds))
    #expect([counts.calls, counts.failures, counts.slow].map { Int($0) } == [seen, 0, 0])
  }

  @Test func `a bucket that is used again starts empty`() {
    var window = TimeWindow(length: Duration.seconds(10).inNanoseconds)
    for second in 0..<25 {
      let now = Moment.start.boot.advanced(by: Int64(second) * 1_000_000_000)
      window.add(isFailure: second.isMultiple(of: 2), isSlow: false, at: now)
      window.add(isFailure: false, isSlow: true, at: now)
      let seen = Int64(min(second + 1, 10))
      #expect(window.counts(at: now).calls == 2 * seen)
      #expect(window.counts(at: now).slow == seen)
    }
  }

  @Test func `a window works at its shortest length and at the first instants of a boot`() {
    var window = TimeWindow(length: 5)
    window.add(isFailure: true, isSlow: false, at: Instant(nanoseconds: 0))
    #expect(window.counts(at: Instant(nanoseconds: 9)).failures == 1)
    #expect(window.counts(at: Instant(nanoseconds: 10)).failures == 0)
    window = TimeWindow(length: Duration.seconds(10).inNanoseconds)
    #expect(window.counts(at: Instant(nanoseconds: 3)) == CallCounts())
  }

  @Test func `a window of N calls always holds exactly the last N`() {
    var window = LastCallsWindow(capacity: 3)
    var all: [(isFailure: Bool, isSlow: Bool)] = []
    for number in 0..<11 {
      let call = (isFailure: number % 2 == 0, isSlow: number % 5 == 0)
      window.add(isFailure: call.isFailure, isSlow: call.isSlow)
      all.append(call)
      let last = all.suffix(3)
      #expect(window.counts.calls == Int64(last.count))
      #expect(window.counts.failures == Int64(last.count { $0.isFailure }))
      #expect(window.counts.slow == Int64(last.count { $0.isSlow }))
      #expect(CallWindow.last(window).sequence == Int64(all.count))
    }
  }

  @Test(arguments: [
    (BreakerPolicy(), "none"),
    (BreakerPolicy(failureRate: 0.5, window: .seconds(1)), "window"),
    (BreakerPolicy(failureRate: 0.5, window: .seconds(2)), "longer window"),
    (BreakerPolicy(failureRate: 0.5, last: 5), "last"),
    (BreakerPolicy(failureRate: 0.5, last: 6), "longer last"),
  ])
  func `a window fits only its own policy`(policy: BreakerPolicy, name: String) {
    let policies = [
      BreakerPolicy(), BreakerPolicy(window: .seconds(1)), BreakerPolicy(window: .seconds(2)),
      BreakerPolicy(last: 5), BreakerPolicy(last: 6),
    ]
    #expect(policies.count { CallWindow(for: policy).fits($0) } == 1)
  }

  @Test func `a policy without a window counts no calls in one`() {
    var window = CallWindow.none
    window.add(isFailure: true, isSlow: true, at: Moment.start.boot)
    #expect(window.counts(at: Moment.start.boot) == CallCounts())
    #expect(window.sequence == 0)
    #expect(CallWindow.time(TimeWindow(length: 10)).sequence == 0)
  }

  @Test func `a rate over a time forgets older calls`() {
    var bench = Bench(BreakerPolicy(failureRate: 0.5, window: .seconds(10), minCalls: 4))
    bench.calls(3, .failure())
    bench.advance(by: .seconds(10))
    bench.call(.failure())
    #expect(bench.state == .closed)
    bench.calls(3, .failure())
    #expect(bench.state == .open)
  }

  @Test func `a policy with a different window starts with an empty one`() {
    var bench = Bench(BreakerPolicy(failureRate: 0.5, last: 4))
    bench.calls(3, .failure())
    bench.policy.last = 5
    bench.call(.failure())
    #expect(bench.state == .closed)
    #expect(bench.record.window.counts(at: bench.now.boot).calls == 1)
  }
}
