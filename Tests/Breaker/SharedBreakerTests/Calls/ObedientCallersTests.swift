import SharedBreaker
import SharedBreakerTesting
import Testing

/// Callers that come back when they were told to.
@Suite(.timeLimit(.minutes(60))) struct ObedientCallersTests {
  private let host = TestHost()

  private var now: Duration { host.clock.now.offset }

  private func breakers(_ count: Int, _ policy: BreakerPolicy) throws -> [Breaker] {
    try (0..<count).map { _ in try host.process().store().breaker("api", policy: policy) }
  }

  /// A caller, and its call if one is under way.
  private struct Caller {
    let breaker: Breaker
    var next: Duration
    var call: SharedPermit?
    var isServed = false

    /// The waits that it was told, one for each rejection.
    var told: [Duration] = []
  }

  /// Lets callers call until each has been served, and returns when that was.
  ///
  /// A call takes 50 ms, and the resource answers from `back` on.
  private func served(
    _ count: Int, _ policy: BreakerPolicy, back: Duration
  ) throws -> (times: [Duration], callers: [Caller]) {
    var callers = try breakers(count, policy).map { Caller(breaker: $0, next: .zero) }
    var times: [Duration] = []
    while let index = callers.indices.filter({ !callers[$0].isServed }).min(by: {
      callers[$0].next < callers[$1].next
    }) {
      host.clock.advance(by: max(.zero, callers[index].next - now))
      if let call = callers[index].call {
        let isBack = now >= back
        call.report(isBack ? .success : .failure())
        callers[index].call = nil
        callers[index].next = now
        callers[index].isServed = isBack
        if isBack { times.append(now) }
        continue
      }
      switch try callers[index].breaker.decide() {
      case .permitted(let permit):
        callers[index].call = permit.shared()
        callers[index].next = now + .milliseconds(50)
      case .rejected(let rejection):
        let wait = try #require(rejection.retryAfter)
        callers[index].told.append(wait)
        callers[index].next = now + wait
      }
    }
    return (times.sorted(), callers)
  }

  @Test func `forty callers that wait as told come back soon after the resource does`() throws {
    let back = Duration.seconds(10.3)
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(1))
    let (times, callers) = try served(40, policy, back: back)
    let late = times.map { $0 - back }
    #expect(late[20] < .seconds(2), "half of them came back \(late[20]) after the resource")
    #expect(try #require(late.last) < .seconds(2.5))
    // No caller asked again without a pause.
    #expect(callers.allSatisfy { $0.told.count < 40 && $0.told.allSatisfy { $0 > .zero } })
  }

  @Test func `callers of a resource whose probes are known come back with the probe`() throws {
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(1))
    let first = try breakers(1, policy)[0]
    try first.trip()
    host.clock.advance(by: .seconds(1))
    let probe = try first.acquire()
    host.clock.advance(by: .milliseconds(50))
    probe.succeed()
    let back = now + .seconds(5)
    let (times, _) = try served(40, policy, back: back)
    #expect(times[20] - back < .seconds(1.2))
  }

  @Test func `a probe under way is no reason to wait for the end of its lease`() throws {
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(1))
    let breakers = try breakers(2, policy)
    try breakers[0].trip()
    host.clock.advance(by: .seconds(1))
    let probe = try breakers[0].acquire().shared()
    let told = try rejection(of: breakers[1])?.retryAfter
    #expect(try #require(told) <= .seconds(1))
    #expect(breakers[1].snapshot().retryAfter == told)
    probe.report(.ignored)
  }

  @Test func `with jitter each caller is told a different time, and all snapshots show one time`()
    throws
  {
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(100), jitter: 0.5)
    let breakers = try breakers(40, policy)
    try breakers[0].trip()
    let due = try #require(breakers[0].snapshot().retryAfter)
    try expectSpread(breakers, from: due)
    // They were rejected from the store; now they are rejected from memory.
    try expectSpread(breakers, from: due)
    try expectSpread((0..<40).map { _ in breakers[0] }, from: due)
    #expect(breakers.allSatisfy { $0.snapshot().retryAfter == due })
    host.clock.advance(by: due)
    let probe = try breakers[0].acquire().shared()
    try expectSpread(breakers, from: try #require(breakers[1].snapshot().retryAfter))
    probe.report(.ignored)
  }

  @Test func `without jitter all callers are told the same instant`() throws {
    let breakers = try breakers(9, BreakerPolicy(openFor: .seconds(100)))
    try breakers[0].trip()
    for breaker in breakers + breakers {
      #expect(try rejection(of: breaker)?.retryAfter == .seconds(100))
    }
  }

  private func rejection(of breaker: Breaker) throws -> Rejection? {
    switch try breaker.decide() {
    case .permitted: nil
    case .rejected(let rejection): rejection
    }
  }

  /// Checks that forty callers are told many times, by half later at most and never earlier.
  private func expectSpread(
    _ breakers: [Breaker], from due: Duration, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let told = try breakers.map { try #require(try rejection(of: $0)?.retryAfter) }
    #expect(told.allSatisfy { $0 >= due && $0 < due * 1.5 }, sourceLocation: sourceLocation)
    #expect(Set(told).count > 35, sourceLocation: sourceLocation)
    let (early, late) = (told.count { $0 < due * 1.25 }, told.count { $0 >= due * 1.25 })
    #expect(early >= 5 && late >= 5, "\(early) and \(late)", sourceLocation: sourceLocation)
  }
}
