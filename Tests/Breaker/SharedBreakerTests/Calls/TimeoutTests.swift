import SharedBreaker
import SharedBreakerTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct TimeoutTests {
  let host = TestHost()
  let timeout = Duration.seconds(2)

  private func breaker(_ policy: BreakerPolicy = BreakerPolicy(maxFailures: 3)) throws -> Breaker {
    try host.store().breaker("api", policy: policy)
  }

  /// Moves the clock to the deadline of a call as soon as it runs.
  private func passDeadline() async throws {
    try await host.clock.untilSomebodySleeps(for: timeout)
    host.clock.advance(by: timeout)
  }

  @Test func `work that ends within its timeout gives its answer or its error`() async throws {
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

  @Test func `a timeout frees the caller even if the work ignores the cancellation`() async throws {
    let breaker = try breaker()
    let work = HungWork()
    let call = Task { try await breaker.run(timeout: timeout) { await work.hang() } }
    await work.untilItHangs()
    try await passDeadline()
    await #expect(throws: CallTimedOut.self) { try await call.value }
    #expect(breaker.snapshot().consecutiveFailures == 1)
    #expect(
      breaker.snapshot().lastError == "a call through api took longer than 2s")
    // How the work ends later changes nothing.
    work.release()
    await work.untilItEnded()
    #expect(breaker.snapshot().totals.successes == 0)
    #expect(breaker.snapshot().totals.failures == 1)
    #expect(breaker.snapshot().totals.ignored == 0)
  }

  @Test func `a timeout cancels the work at its deadline`() async throws {
    let breaker = try breaker()
    let ends = Notes<Bool>()
    let clock = host.clock
    let call = Task {
      try await breaker.run(timeout: timeout) {
        do { try await clock.sleep(for: .seconds(1_000)) } catch { ends.note(Task.isCancelled) }
      }
    }
    try await clock.untilSomebodySleeps(for: .seconds(1_000))
    try await passDeadline()
    await #expect(throws: CallTimedOut.self) { try await call.value }
    await until { ends.count == 1 }
    #expect(ends.entries == [true])
  }

  @Test func `the timeout hook is called once for each late attempt`() async throws {
    let breaker = try breaker()
    let hooks = Notes<BreakerState>()
    let work = HungWork()
    let call = Task {
      try await breaker.run(
        timeout: timeout, retry: .fixed(attempts: 9, delay: .seconds(1)),
        onTimeout: { hooks.note(breaker.state) }
      ) { await work.hang() }
    }
    for attempt in 1...3 {
      try await passDeadline()
      guard attempt < 3 else { break }
      try await host.clock.untilSomebodySleeps(for: .seconds(1))
      host.clock.advance(by: .seconds(1))
    }
    await #expect(throws: CallTimedOut(name: "api", timeout: timeout)) { try await call.value }
    #expect(hooks.entries == [.closed, .closed, .closed])
    #expect(breaker.state == .open)
    work.release()
  }

  @Test func `a timeout is a failure whatever the classifier says`() async throws {
    let breaker = try breaker(BreakerPolicy(maxFailures: 1))
    let work = HungWork()
    let call = Task {
      try await breaker.run(timeout: timeout, outcome: { _ in .ignored }) {
        await work.hang()
      } onFailure: { error in
        #expect(error is CallTimedOut)
      }
    }
    try await passDeadline()
    try await call.value
    #expect(breaker.state == .open)
    work.release()
  }

  @Test func `a probe that exceeds its timeout fails and opens the breaker`() async throws {
    let breaker = try breaker(BreakerPolicy(maxFailures: 1, openFor: .seconds(1)))
    try breaker.trip()
    host.clock.advance(by: .seconds(1))
    let work = HungWork()
    let call = Task { try await breaker.run(timeout: timeout) { await work.hang() } }
    await work.untilItHangs()
    #expect(breaker.state == .halfOpen)
    try await passDeadline()
    await #expect(throws: CallTimedOut.self) { try await call.value }
    #expect(breaker.state == .open)
    work.release()
  }

  @Test func `a rejected call with a timeout does not run its work`() async throws {
    let breaker = try breaker()
    try breaker.trip()
    await #expect(throws: BreakerError.self) {
      try await breaker.run(timeout: timeout) { _ = Issue.record("the work was run") }
    }
    #expect(host.clock.sleeps.isEmpty)
  }
}
