import SharedBreakerTesting
import TestSupport
import Testing

@testable import BreakerStore
@testable @_spi(Command) import SharedBreaker

/// Calls of several processes under a rate: how many begin in any interval on the whole host.
@Suite(.timeLimit(.minutes(60))) struct RatedCallTests {
  private let host = TestHost()

  private static func policy(
    _ calls: Int, per interval: Duration = .seconds(60), queueTimeout: Duration? = nil
  ) -> BreakerPolicy {
    BreakerPolicy(queueTimeout: queueTimeout, rate: .calls(calls, per: interval))
  }

  private func breakers(_ policy: BreakerPolicy, count: Int = 3) throws -> [Breaker] {
    try (0..<count).map { _ in try host.process().store().breaker("gpu", policy: policy) }
  }

  private func waiting(_ count: Int, _ breaker: Breaker) async {
    await until { breaker.snapshot().limit?.waiters.count == count }
  }

  private func rejection(_ breaker: Breaker) -> Rejection? {
    do {
      try breaker.run {}
      return nil
    } catch {
      return (error as? BreakerError)?.rejection
    }
  }

  @Test
  func `all calls may begin at once, whichever processes make them, and no more in the interval`()
    throws
  {
    let breakers = try breakers(Self.policy(10))
    for number in 0..<10 {
      #expect(rejection(breakers[number % 3]) == nil)
      host.clock.advance(by: .seconds(1))
    }
    let rejected = try #require(rejection(breakers[1]))
    #expect(rejected.cause == .rate && rejected.retryAfter == .seconds(50))
    #expect(rejected.state == .closed)
    host.clock.advance(by: .seconds(50) - .nanoseconds(1))
    #expect(rejection(breakers[2])?.retryAfter == .nanoseconds(1))
    host.clock.advance(by: .nanoseconds(1))
    #expect(rejection(breakers[2]) == nil)
    #expect(rejection(breakers[0])?.retryAfter == .seconds(1))
    let snapshot = breakers[0].snapshot()
    #expect(snapshot.totals.overRate > 0 && snapshot.totals.rejections == 0)
    #expect(snapshot.trips == 0 && snapshot.totals.busy == 0)
    #expect(snapshot.rate == RateSnapshot(begun: 10, nextIn: .seconds(1)))
    #expect(snapshot.permits && snapshot.hasRoom == false && snapshot.causeWithoutRoom == .rate)
  }

  @Test func `even spacing is one call in a short time`() throws {
    let breakers = try breakers(Self.policy(1, per: .milliseconds(120)))
    var begun: [Duration] = []
    for number in 0..<1_000 {
      if rejection(breakers[number % 3]) == nil { begun.append(host.clock.now.offset) }
      host.clock.advance(by: .milliseconds(1))
    }
    #expect(begun == (0..<9).map { .milliseconds(120) * $0 })
  }

  @Test func `a call without room learns when the rate lets it begin, if that is later than now`()
    throws
  {
    let breakers = try breakers(BreakerPolicy(maxConcurrent: 1, rate: .calls(1, per: .minute)))
    let permit = try breakers[0].acquire()
    let rejected = rejection(breakers[1])
    #expect(rejected?.cause == .busy && rejected?.retryAfter == .seconds(60))
    permit.succeed()
  }

  @Test func `room comes first, and a call without room takes no instant`() throws {
    let policy = BreakerPolicy(maxConcurrent: 1, rate: .calls(2, per: .minute))
    let breakers = try breakers(policy)
    let permit = try breakers[0].acquire()
    let rejected = rejection(breakers[1])
    #expect(rejected?.cause == .busy && rejected?.retryAfter == nil)
    #expect(breakers[2].snapshot().rate?.begun == 1)
    #expect(breakers[2].snapshot().causeWithoutRoom == .busy)
    permit.succeed()
    #expect(rejection(breakers[1]) == nil)
    #expect(rejection(breakers[2])?.cause == .rate)
    #expect(breakers[0].snapshot().limit?.unitsInUse == 0)
  }

  @Test func `a call by token takes an instant`() throws {
    let breakers = try breakers(Self.policy(1))
    let token = try breakers[0].acquireToken()
    #expect(rejection(breakers[1])?.cause == .rate)
    #expect(try host.store().report(token, .success) == .counted)
    #expect(rejection(breakers[1])?.cause == .rate)
  }

  @Test func `a call inside of another one takes an instant, and no room`() throws {
    let policy = BreakerPolicy(maxConcurrent: 1, rate: .calls(3, per: .minute))
    let breaker = try breakers(policy)[0]
    try breaker.run {
      #expect(rejection(breaker) == nil)
      #expect(rejection(breaker) == nil)
      #expect(rejection(breaker)?.cause == .rate)
    }
  }

  @Test func `so does one inside of a task's call`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 1, rate: .calls(3, per: .minute))
    let breaker = try breakers(policy)[0]
    try await breaker.run { () async throws in
      #expect(rejection(breaker) == nil)
      #expect(breaker.snapshot().rate?.begun == 2)
      #expect(breaker.snapshot().limit?.unitsInUse == 1)
    }
  }

  @Test(arguments: [false, true])
  func `a call inside of another one waits for its turn, before those that wait for room`(
    isTask: Bool
  )
    async throws
  {
    let policy = BreakerPolicy(
      maxConcurrent: 1, queueTimeout: .seconds(3_600), rate: .calls(1, per: .minute))
    let breakers = try breakers(policy)
    let order = Guarded<[String]>([])
    let (breaker, other, clock) = (breakers[0], breakers[1], host.clock)
    let threads = Threads()
    let outer = Task {
      if isTask {
        try await breaker.run { () async throws in
          try await breaker.run { () async throws in order.withLock { $0.append("inside") } }
        }
      }
    }
    if !isTask {
      threads.start {
        try? breaker.run { try breaker.run { order.withLock { $0.append("inside") } } }
      }
    }
    await waiting(1, breaker)
    threads.start { try? other.run { order.withLock { $0.append("outside") } } }
    await waiting(2, breaker)
    clock.advance(by: .seconds(60))
    await until { order.withLock { $0 } == ["inside"] }
    clock.advance(by: .seconds(60))
    try await outer.value
    threads.join()
    #expect(order.withLock { $0 } == ["inside", "outside"])
  }

  @Test func `observe waits for nothing, and counts what it would have rejected`() throws {
    let breakers = try breakers(Self.policy(2, queueTimeout: .seconds(3_600)))
    try breakers[0].force(.observe)
    for _ in 0..<5 { #expect(rejection(breakers[0]) == nil) }
    let snapshot = breakers[0].snapshot()
    #expect(snapshot.totals.wouldReject == 3 && snapshot.totals.overRate == 0)
    // A call that it would have rejected for two reasons counts once.
    try breakers[0].trip()
    #expect(rejection(breakers[0]) == nil)
    #expect(breakers[0].snapshot().totals.wouldReject == 4)
  }

  @Test func `forced_closed overrules no rate`() throws {
    let breakers = try breakers(Self.policy(1))
    try breakers[0].force(.forcedClosed)
    #expect(rejection(breakers[1]) == nil)
    #expect(rejection(breakers[2])?.cause == .rate)
  }

  @Test func `a probe for which the rate has no turn gives its slot back`() throws {
    let policy = BreakerPolicy(
      maxFailures: 1, openFor: .seconds(10), rate: .calls(1, per: .minute))
    let breakers = try breakers(policy)
    try breakers[0].acquire().fail()
    host.clock.advance(by: .seconds(10))
    #expect(rejection(breakers[1])?.cause == .rate)
    #expect(rejection(breakers[1])?.retryAfter == .seconds(50))
    host.clock.advance(by: .seconds(50))
    #expect(rejection(breakers[2]) == nil)
    #expect(breakers[0].snapshot().state == .closed)
  }

  @Test(arguments: [false, true])
  func `callers wait for their turn, in the order in which they came`(isTask: Bool) async throws {
    let breakers = try breakers(Self.policy(2, queueTimeout: .seconds(3_600)))
    for breaker in breakers.prefix(2) { #expect(rejection(breaker) == nil) }
    let begun = Guarded<[Int]>([])
    let threads = Threads()
    var tasks: [Task<Void, any Error>] = []
    for number in 0..<4 {
      let breaker = breakers[number % 3]
      if isTask {
        tasks.append(
          Task { try await breaker.run { () async throws in begun.withLock { $0.append(number) } } }
        )
      } else {
        threads.start { try? breaker.run { begun.withLock { $0.append(number) } } }
      }
      await waiting(number + 1, breakers[0])
    }
    #expect(breakers[0].snapshot().rate?.nextIn == .seconds(180))
    host.clock.advance(by: .seconds(60))
    await until { begun.withLock { $0.count } == 2 }
    #expect(begun.withLock { Set($0) } == [0, 1])
    await waiting(2, breakers[0])
    host.clock.advance(by: .seconds(60))
    for task in tasks { try await task.value }
    threads.join()
    #expect(begun.withLock { Set($0.dropFirst(2)) } == [2, 3])
    #expect(breakers[0].snapshot().totals.overRate == 0)
  }

  @Test func `a caller that cannot make it is turned away at once, with the time`() async throws {
    let breakers = try breakers(Self.policy(1, queueTimeout: .seconds(30)))
    #expect(rejection(breakers[0]) == nil)
    #expect(rejection(breakers[1])?.retryAfter == .seconds(60))
    let error = await #expect(throws: BreakerError.self) {
      try await breakers[2].run { () async throws in }
    }
    #expect(error?.rejection?.cause == .rate && error?.retryAfter == .seconds(60))
    #expect(error.map { "\($0)" }?.contains("as many calls have begun as its rate permits") == true)
  }

  @Test func `a rate that is lowered counts what has begun under the earlier one`() throws {
    let breakers = try breakers(Self.policy(10))
    for number in 0..<6 {
      #expect(rejection(breakers[number % 3]) == nil)
      host.clock.advance(by: .seconds(5))
    }
    try breakers[0].overridePolicy(set: [.rate: "2/1m"])
    let rejected = try #require(rejection(breakers[1]))
    // The fifth of the six has to be a minute old.
    #expect(rejected.cause == .rate && rejected.retryAfter == .seconds(50))
    #expect(breakers[2].snapshot().rate?.begun == 6)
    host.clock.advance(by: .seconds(50))
    #expect(rejection(breakers[2]) == nil)
    #expect(rejection(breakers[1])?.retryAfter == .seconds(5))
  }

  @Test func `callers that wait follow a rate that is raised`() async throws {
    let breakers = try breakers(Self.policy(1, queueTimeout: .seconds(3_600)))
    #expect(rejection(breakers[0]) == nil)
    let threads = Threads()
    let breaker = breakers[1]
    threads.start { try? breaker.run {} }
    await waiting(1, breakers[0])
    try breakers[2].overridePolicy(set: [.rate: "2/1m"])
    threads.join()
    #expect(breakers[0].snapshot().rate?.begun == 2)
  }

  @Test func `in a ramp a rejection names the rate if that is in the way, and the ramp if it is`()
    throws
  {
    let policy = BreakerPolicy(rampUp: .seconds(600), rate: .calls(3, per: .minute))
    let breakers = try breakers(policy)
    try breakers[0].hold(for: .seconds(60))
    host.clock.advance(by: .seconds(60))
    #expect(rejection(breakers[0]) == nil)
    let permits = try [breakers[1].acquire().shared(), breakers[2].acquire().shared()]
    #expect(rejection(breakers[0])?.cause == .ramping)
    permits.forEach { $0.succeed() }
    let rejected = try #require(rejection(breakers[1]))
    #expect(rejected.cause == .rate && rejected.retryAfter == .seconds(60))
  }

  @Test func `a reboot begins with an empty ring`() throws {
    let breakers = try breakers(Self.policy(1))
    #expect(rejection(breakers[0]) == nil)
    host.reboot()
    let breaker = try host.process().store().breaker("gpu")
    #expect(breaker.snapshot().policy.rate == .calls(1, per: .minute))
    #expect(rejection(breaker) == nil)
    #expect(rejection(breaker)?.cause == .rate)
  }

  @Test func `a store of its own keeps to the rate alone while the shared one cannot be used`()
    throws
  {
    let breakers = try breakers(Self.policy(2))
    #expect(rejection(breakers[0]) == nil)
    host.failStore()
    #expect(rejection(breakers[0]) == nil)
    #expect(rejection(breakers[0])?.cause == .rate)
    host.repairStore()
    #expect(rejection(breakers[1])?.cause == .rate)
  }
}
