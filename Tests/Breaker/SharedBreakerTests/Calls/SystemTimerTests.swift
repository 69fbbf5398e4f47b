import SharedBreaker
import SharedBreakerTesting
import Testing

/// The timer of the host itself.
@Suite(.timeLimit(.minutes(60))) struct SystemTimerTests {
  @Test(arguments: [Duration.seconds(Int64.max), .seconds(1e20), .seconds(86_400 * 365 * 200)])
  func `the system timer can be asked to wait for hundreds of years`(time: Duration) async throws {
    let sleeper = Task { try await StoreTimer.system.sleep(for: time) }
    await Task.yield()
    sleeper.cancel()
    await #expect(throws: CancellationError.self) { try await sleeper.value }
    let breaker = try inMemory()
    #expect(try await breaker.run(timeout: time) { 42 } == 42)
  }

  @Test(arguments: [Duration.zero, .seconds(-1), .seconds(Int64.min), .nanoseconds(1)])
  func `the system timer returns for zero, negative and tiny times`(time: Duration) async throws {
    try await StoreTimer.system.sleep(for: time)
    StoreTimer.system.block(for: time)
  }

  @Test func `the system timer ends a call that takes too long`() async throws {
    let breaker = try inMemory()
    let work = HungWork()
    await #expect(throws: CallTimedOut.self) {
      try await breaker.run(timeout: .milliseconds(1)) { await work.hang() }
    }
    work.release()
  }

  @Test func `calls wait for the system timer between two attempts`() async throws {
    let breaker = try inMemory()
    let tries = Notes<Int>()
    for retry in [
      RetryPolicy.fixed(attempts: 3, delay: .milliseconds(1)),
      .exponential(attempts: 3, delay: .microseconds(100), jitter: 1.0),
    ] {
      try await breaker.run(retry: retry) {
        await Task.yield()
        tries.note(1)
        if !tries.count.isMultiple(of: 3) { throw Refused() }
      }
      func runOutsideOfTask() throws {
        try breaker.run(retry: retry) {
          tries.note(1)
          if !tries.count.isMultiple(of: 3) { throw Refused() }
        }
      }
      try runOutsideOfTask()
    }
    #expect(tries.count == 12)
  }

  @Test func `the system timer ends a late attempt of a job and starts the next one`() async throws
  {
    let tries = Notes<Int>()
    let job = BreakerJob(
      try inMemory(), timeout: .milliseconds(1), retry: .fixed(attempts: 3, delay: .milliseconds(1))
    ) { _ in tries.note(1) }
    let timeouts = Notes<Int>()
    job.timedOut = { _ in timeouts.note(1) }
    let errors = Notes<Bool>()
    job.failed = { _, error in errors.note(error is CallTimedOut) }
    await job.start()
    await until { errors.count == 1 }
    #expect(timeouts.count == 3)
    // On a busy machine an attempt can time out before its work is called, which then never runs.
    #expect(tries.count <= 3)
    #expect(errors.entries == [true])
    #expect(job.failureCount == 3)
  }

  /// A breaker whose clock stands still while its timer runs.
  private func inMemory() throws -> Breaker {
    try TestHost().store(timer: .system).breaker("api")
  }
}
