import SharedBreaker
import SharedBreakerTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct CancelledCallerTests {
  let host = TestHost()

  @Test(arguments: [BreakerState.closed, .halfOpen])
  func `a cancelled caller is free at once and neutral even if its work hangs`(state: BreakerState)
    async throws
  {
    let breaker = try breaker(in: state)
    let before = breaker.snapshot()
    let work = HungWork()
    let call = Task { try await breaker.run(timeout: .seconds(9)) { await work.hang() } }
    await work.untilItHangs()
    call.cancel()
    await #expect(throws: CancellationError.self) { try await call.value }
    expectNeutral(breaker, since: before)
    work.release()
    await work.untilItEnded()
    expectNeutral(breaker, since: before)
  }

  @Test(arguments: [BreakerState.closed, .halfOpen])
  func `a cancelled call is neutral whatever error its work throws`(state: BreakerState)
    async throws
  {
    let breaker = try breaker(in: state)
    let before = breaker.snapshot()
    let clock = host.clock
    for _ in 0..<3 {
      let call = Task {
        try await breaker.run(retry: .fixed(attempts: 3, delay: .zero, retryIf: { _ in true })) {
          do { try await clock.sleep(for: .seconds(1)) } catch { throw Refused() }
        }
      }
      try await clock.untilSomebodySleeps(for: .seconds(1))
      call.cancel()
      await #expect(throws: Refused.self) { try await call.value }
    }
    expectNeutral(breaker, since: before, ignored: 3)
  }

  @Test(arguments: [BreakerState.closed, .halfOpen])
  func `a cancelled call is neutral whatever its judge says of the error`(state: BreakerState)
    async throws
  {
    let breaker = try breaker(in: state)
    let before = breaker.snapshot()
    let call = Task {
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      await #expect(throws: Refused.self) {
        try await breaker.run(outcome: { _ in .failure() }) {
          await Task.yield()
          throw Refused()
        }
      }
      #expect(throws: Refused.self) {
        try breaker.run(outcome: { _ in .permanentFailure() }) { throw Refused() }
      }
    }
    await call.value
    expectNeutral(breaker, since: before, ignored: 2)
  }

  @Test(arguments: [BreakerState.closed, .halfOpen])
  func `a caller that is cancelled before its call runs no work and is neutral`(state: BreakerState)
    async throws
  {
    let breaker = try breaker(in: state)
    let before = breaker.snapshot()
    let call = Task {
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      try await breaker.run(timeout: .seconds(9)) { _ = Issue.record("the work was run") }
    }
    await #expect(throws: CancellationError.self) { try await call.value }
    expectNeutral(breaker, since: before)
    #expect(host.clock.sleeps.isEmpty)
  }

  /// A breaker with one failure, or one whose next call is a probe.
  private func breaker(in state: BreakerState) throws -> Breaker {
    let policy = BreakerPolicy(maxFailures: 2, openFor: .seconds(1), successesToClose: 2)
    let breaker = try host.store().breaker("api", policy: policy)
    #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    guard state == .halfOpen else { return breaker }
    #expect(throws: Refused.self) { try breaker.run { throw Refused() } }
    host.clock.advance(by: .seconds(1))
    try breaker.run {}
    #expect(breaker.state == .halfOpen)
    return breaker
  }

  private func expectNeutral(
    _ breaker: Breaker, since before: BreakerSnapshot, ignored: Int64 = 1,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let after = breaker.snapshot()
    #expect(after.state == before.state, sourceLocation: sourceLocation)
    #expect(after.permits, "the slot is free again", sourceLocation: sourceLocation)
    #expect(
      after.consecutiveFailures == before.consecutiveFailures, sourceLocation: sourceLocation)
    #expect(after.totals.failures == before.totals.failures, sourceLocation: sourceLocation)
    #expect(after.totals.successes == before.totals.successes, sourceLocation: sourceLocation)
    #expect(after.totals.ignored == before.totals.ignored + ignored, sourceLocation: sourceLocation)
  }
}
