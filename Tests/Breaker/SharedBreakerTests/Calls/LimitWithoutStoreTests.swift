import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Limits, and the calls found lost under them, while the store cannot be used.
@Suite(.timeLimit(.minutes(60))) struct LimitWithoutStoreTests {
  private let host = TestHost()

  /// A call that waits for room, which tells whether it was rejected.
  private func waitingCaller(of breaker: Breaker) async throws -> Task<Rejection?, Never> {
    let caller = Task { () async -> Rejection? in
      do { try await breaker.run { () async throws in } } catch let error as BreakerError {
        return error.rejection
      } catch { Issue.record(error) }
      return nil
    }
    while breaker.snapshot().limit?.waiters.count != 1 {
      try await Task.sleep(for: .milliseconds(1))
    }
    return caller
  }

  @Test func `processes share the limit that they know while the store cannot be used`() throws {
    let policy = BreakerPolicy(maxConcurrent: 1)
    let breakers = [try host.limited(policy), try host.limited(policy, in: host.process())]
    host.failStore()
    // Only a call that has to write notices it.
    for breaker in breakers {
      #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    }
    let permit = try breakers[0].acquire().shared()
    for breaker in breakers {
      #expect(breaker.isBusy)
      #expect(breaker.snapshot().limit?.unitsInUse == 1)
    }
    // One that has never had the store keeps to the limit alone.
    let late = try host.process().store().breaker("gpu", policy: policy)
    let alone = try late.acquire()
    #expect(late.isBusy)
    #expect(late.snapshot().limit?.unitsInUse == 1)
    alone.succeed()
    #expect(!late.isBusy)
    host.repairStore()
    host.clock.advance(by: .seconds(2))
    for breaker in breakers { #expect(breaker.isBusy) }
    permit.succeed()
    try breakers[1].run {}
  }

  @Test func `a process that cannot read a changed limit keeps to the one that the others have`()
    throws
  {
    for action in [StoreFailureAction.continueLocally, .permit] {
      let host = TestHost()
      let policy = BreakerPolicy(maxConcurrent: 2)
      let other = try host.store().breaker("gpu", policy: policy)
      let breaker = try host.process().store().breaker(
        "gpu", policy: policy, onStoreFailure: action)
      for each in [other, breaker] { try each.run {} }
      try other.overridePolicy(set: [.maxConcurrent: "1"])
      let permit = try other.acquire()
      host.failStore()
      #expect(breaker.isBusy, "\(action)")
      permit.succeed()
      #expect(!breaker.isBusy, "\(action)")
      let own = try breaker.acquire()
      #expect(breaker.isBusy && other.isBusy, "\(action)")
      own.succeed()
    }
  }

  @Test func `a caller that began to wait without the store asks it when it is back`() async throws
  {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    host.failStore()
    #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    let permit = try await breaker.acquire().shared()
    let caller = try await waitingCaller(of: breaker)
    host.repairStore()
    host.clock.advance(by: .seconds(2))
    try host.process().store().breaker("gpu").trip(for: .seconds(60))
    permit.succeed()
    #expect(await caller.value?.cause == .open)
  }

  @Test func `a caller that waits without the store leaves when its own breaker opens`()
    async throws
  {
    let policy = BreakerPolicy(maxFailures: 2, maxConcurrent: 2, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    host.failStore()
    #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    let permits = [try await breaker.acquire().shared(), try await breaker.acquire().shared()]
    let caller = try await waitingCaller(of: breaker)
    for permit in permits { permit.fail() }
    #expect(await caller.value?.cause == .open)
  }

  @Test func `calls found lost while the store fails count when it is back, each of them once`()
    throws
  {
    let policy = BreakerPolicy(maxFailures: 9, maxConcurrent: 2, lostCalls: .failure)
    let worker = host.process()
    let lost = try host.limited(policy, in: worker)
    let permits = [try lost.acquire().shared(), try lost.acquire().shared()]
    let finder = try host.process().store().breaker("gpu", policy: policy)
    #expect(finder.isBusy)
    host.failStore()
    worker.kill()
    #expect(!finder.isBusy)
    host.repairStore()
    for _ in 0..<3 {
      host.clock.advance(by: .seconds(11))
      #expect(!finder.isBusy)
      #expect(try !host.process().store().breaker("gpu").isBusy)
    }
    let totals = finder.snapshot().totals
    #expect(totals.lostCalls == 2 && totals.failures == 2)
    withExtendedLifetime(permits) {}
  }
}
