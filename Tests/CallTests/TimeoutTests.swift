import SharedBreaker
import SharedBreakerTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A call with a timeout` {
  let host = TestHost()
  let timeout = Duration.seconds(2)

  private func breaker(_ policy: BreakerPolicy = BreakerPolicy(maxFailures: 3)) throws -> Breaker {
    try host.store().breaker("api", policy: policy)
  }

  /// Moves the clock to the deadline of a call as soon as it runs.
  private func passDeadline() async {
    await host.clock.untilSomebodySleeps(for: timeout)
    host.clock.advance(by: timeout)
  }

  @Test func `gives the answer of work that is in time, and stops its timer`() async throws {
    let breaker = try breaker()
    let answer = try await breaker.run(timeout: timeout) {
      await Task.yield()
      return 42
    }
    #expect(answer == 42)
    await #expect(throws: Refused.self) {
      try await breaker.run(timeout: timeout) { throw Refused() }
    }
    #expect(breaker.snapshot().totals.successes == 1)
    #expect(breaker.snapshot().totals.failures == 1)
  }

  @Test func `frees its caller though the work ignores the cancellation`() async throws {
    let breaker = try breaker()
    let work = HungWork()
    let call = Task { try await breaker.run(timeout: timeout) { await work.hang() } }
    await work.untilItHangs()
    await passDeadline()
    await #expect(throws: CallTimedOut.self) { try await call.value }
    #expect(breaker.snapshot().consecutiveFailures == 1)
    #expect(
      breaker.snapshot().lastError == "a call through api was not over after 2s")
    // How it ends later is of no account.
    work.release()
    await work.untilItEnded()
    #expect(breaker.snapshot().totals.successes == 0)
    #expect(breaker.snapshot().totals.failures == 1)
    #expect(breaker.snapshot().totals.ignored == 0)
  }

  @Test func `cancels the work at its deadline`() async throws {
    let breaker = try breaker()
    let ends = Journal<Bool>()
    let clock = host.clock
    let call = Task {
      try await breaker.run(timeout: timeout) {
        do { try await clock.sleep(for: .seconds(1_000)) } catch { ends.note(Task.isCancelled) }
      }
    }
    await clock.untilSomebodySleeps(for: .seconds(1_000))
    await passDeadline()
    await #expect(throws: CallTimedOut.self) { try await call.value }
    await until { ends.count == 1 }
    #expect(ends.entries == [true])
  }

  @Test func `calls its hook once for each attempt that is too late`() async throws {
    let breaker = try breaker()
    let hooks = Journal<BreakerState>()
    let work = HungWork()
    let call = Task {
      try await breaker.run(
        timeout: timeout, retry: .fixed(attempts: 9, delay: .seconds(1)),
        onTimeout: { hooks.note(breaker.state) }
      ) { await work.hang() }
    }
    for attempt in 1...3 {
      await passDeadline()
      guard attempt < 3 else { break }
      await host.clock.untilSomebodySleeps(for: .seconds(1))
      host.clock.advance(by: .seconds(1))
    }
    await #expect(throws: CallTimedOut(name: "api", timeout: timeout)) { try await call.value }
    #expect(hooks.entries == [.closed, .closed, .closed])
    #expect(breaker.state == .open)
    work.release()
  }

  @Test func `is a failure whatever the classifier says`() async throws {
    let breaker = try breaker(BreakerPolicy(maxFailures: 1))
    let work = HungWork()
    let call = Task {
      try await breaker.run(timeout: timeout, classify: .errors { _ in .ignored }) {
        await work.hang()
      } onFailure: { error in
        #expect(error is CallTimedOut)
      }
    }
    await passDeadline()
    try await call.value
    #expect(breaker.state == .open)
    work.release()
  }

  @Test func `fails a probe that is too late`() async throws {
    let breaker = try breaker(BreakerPolicy(maxFailures: 1, openFor: .seconds(1)))
    try breaker.trip()
    host.clock.advance(by: .seconds(1))
    let work = HungWork()
    let call = Task { try await breaker.run(timeout: timeout) { await work.hang() } }
    await work.untilItHangs()
    #expect(breaker.state == .halfOpen)
    await passDeadline()
    await #expect(throws: CallTimedOut.self) { try await call.value }
    #expect(breaker.state == .open)
    work.release()
  }

  @Test func `does not run work that is rejected`() async throws {
    let breaker = try breaker()
    try breaker.trip()
    await #expect(throws: BreakerError.self) {
      try await breaker.run(timeout: timeout) { _ = Issue.record("the work was run") }
    }
    #expect(host.clock.sleeps.isEmpty)
  }
}

@Suite(.timeLimit(.minutes(10))) struct `A caller that is cancelled` {
  let host = TestHost()

  @Test(arguments: [BreakerState.closed, .halfOpen])
  func `is free at once, and neutral, though the work ignores it`(state: BreakerState) async throws
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
  func `is neutral whatever error its work makes of it`(state: BreakerState) async throws {
    let breaker = try breaker(in: state)
    let before = breaker.snapshot()
    let clock = host.clock
    for _ in 0..<3 {
      let call = Task {
        try await breaker.run(retry: .fixed(attempts: 3, delay: .zero, retryIf: { _ in true })) {
          do { try await clock.sleep(for: .seconds(1)) } catch { throw Refused() }
        }
      }
      await clock.untilSomebodySleeps(for: .seconds(1))
      call.cancel()
      await #expect(throws: Refused.self) { try await call.value }
    }
    expectNeutral(breaker, since: before, ignored: 3)
  }

  @Test(arguments: [BreakerState.closed, .halfOpen])
  func `before its call does not even begin, and is neutral`(state: BreakerState) async throws {
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

  /// A breaker with one failure, or one that will take the next call as a probe.
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
