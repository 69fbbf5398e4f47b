import Testing

@testable import BreakerCore

/// Healthy calls that were counted elsewhere and that a record takes in later.
@Suite struct HealthyCallsTests {
  static let policies: [BreakerPolicy] = [
    BreakerPolicy(maxFailures: 3),
    BreakerPolicy(failureRate: 0.5, window: .seconds(10), minCalls: 4),
    BreakerPolicy(failureRate: 0.5, last: 8, minCalls: 4),
  ]

  @Test(arguments: policies, [UInt64](1...20))
  func `calls counted elsewhere have the same effect as calls reported one by one`(
    policy: BreakerPolicy, seed: UInt64
  ) {
    var random = SplitMix(seed: seed)
    var reported = Bench(policy)
    var counted = Bench(policy)
    var elsewhere: [Instant] = []
    for _ in 0..<60 {
      switch Int.random(in: 0..<4, using: &random) {
      case 0:
        let time = Duration.milliseconds(Int64.random(in: 0..<3_000, using: &random))
        reported.advance(by: time)
        counted.advance(by: time)
      case 1:
        counted.takeIn(elsewhere)
        elsewhere = []
        reported.call(.failure())
        counted.call(.failure())
      default:
        guard reported.record.streakStartedAt == nil else {
          reported.call(.success)
          counted.call(.success)
          continue
        }
        let before = counted.record
        reported.call(.success)
        if before.state == .closed { elsewhere.append(counted.now.boot) }
      }
      guard reported.state == .closed else { break }
    }
    counted.takeIn(elsewhere)
    #expect(counted.state == reported.state)
    #expect(counted.record.totals == reported.record.totals)
    #expect(
      counted.record.window.counts(at: counted.now.boot)
        == reported.record.window.counts(at: reported.now.boot))
    #expect(counted.transitions == reported.transitions)
  }

  @Test func `calls counted elsewhere reach only the totals once the breaker is open`() {
    var bench = Bench(BreakerPolicy(failureRate: 0.5, last: 8, minCalls: 4))
    bench.trip()
    bench.takeIn([bench.now.boot, bench.now.boot])
    #expect(bench.record.totals.successes == 2)
    #expect(bench.record.window == .none)
  }

  @Test(arguments: [0, 1, 7, 8, 9, 30])
  func `calls counted elsewhere are the latest of the last N calls`(count: Int) {
    var bench = Bench(BreakerPolicy(failureRate: 1.0, last: 8, minCalls: 8))
    bench.call(.failure())
    bench.takeIn(Array(repeating: bench.now.boot, count: count))
    let counts = bench.record.window.counts(at: bench.now.boot)
    #expect(counts.calls == Int64(min(8, count + 1)))
    #expect(counts.failures == (count < 8 ? 1 : 0))
    #expect(bench.record.window.sequence == Int64(count + 1))
  }

  @Test func `calls of a bucket that the window has forgotten do not enter a later bucket`() {
    var bench = Bench(BreakerPolicy(failureRate: 1.0, window: .seconds(10)))
    let long = bench.now.boot
    bench.advance(by: .seconds(10))
    bench.call(.failure())
    bench.takeIn([long])
    #expect(bench.record.totals.successes == 1)
    #expect(bench.record.window.counts(at: bench.now.boot).calls == 1)
  }

  @Test func `a success is only counted if the window is kept elsewhere, unless it was slow`() {
    let policy = BreakerPolicy(
      failureRate: 0.5, slowRate: 0.5, slowAfter: .seconds(1), window: .seconds(10))
    var bench = Bench(policy)
    guard let permit = bench.permit() else { return }
    func isOnlyCounted(_ elapsed: Duration, isWindowElsewhere: Bool) -> Bool {
      bench.record.isOnlyCounted(
        .success, for: permit, elapsed: elapsed, at: bench.now.boot, policy: policy,
        isWindowElsewhere: isWindowElsewhere)
    }
    #expect(isOnlyCounted(.milliseconds(999), isWindowElsewhere: true))
    #expect(!isOnlyCounted(.seconds(1), isWindowElsewhere: true))
    #expect(!isOnlyCounted(.milliseconds(999), isWindowElsewhere: false))
  }

  @Test func `calls counted elsewhere start a new window and forget reporters of the old one`() {
    var bench = Bench(
      BreakerPolicy(failureRate: 0.5, last: 8, minCalls: 4, reporters: 2))
    bench.call(.failure())
    #expect(bench.record.reporters.count == 1)
    bench.policy.last = 16
    bench.takeIn([bench.now.boot])
    #expect(bench.record.reporters.isEmpty)
    #expect(bench.record.window.counts(at: bench.now.boot).calls == 1)
  }
}

extension Bench {
  /// Takes in one success at each of the instants.
  fileprivate mutating func takeIn(_ instants: [Instant]) {
    var calls = HealthyCalls()
    calls.successes = Int64(instants.count)
    calls.totals.successes = calls.successes
    calls.buckets = instants.map { .init(start: $0, successes: 1) }
    record.takeIn(calls, policy: policy)
  }
}
