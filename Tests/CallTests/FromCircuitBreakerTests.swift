import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// The policy that makes a job behave like a `CircuitBreaker`.
///
/// It stands for the parameters of
/// `CircuitBreaker(timeout:maxRetries:timeBetweenRetries:exponentialBackoff:resetTimeout:)`.
func policy(maxRetries: Int = 2, resetTimeout: Duration = .seconds(10)) -> BreakerPolicy {
  BreakerPolicy(maxFailures: maxRetries + 1, openFor: resetTimeout)
}

/// A job in the place of a `CircuitBreaker` does what that did.
@Suite(.timeLimit(.minutes(60))) struct FromCircuitBreakerTests {
  let bench = JobBench()

  @Test func `a job that succeeds is closed and has no failures`() throws {
    let job = try bench.job(policy()) { $0.success() }
    job.start()
    #expect(bench.events.entries == ["work at 0", "successful, closed 0"])
  }

  @Test func `work that exceeds its timeout counts as a failure`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job(policy(), timeout: .seconds(3)) { attempts.note($0) }
    job.start()
    try await bench.pass(.seconds(3))
    await bench.until(3)
    #expect(
      bench.events.entries == ["work at 0", "timed out, closed 0", "failed, closed 1, timeout"])
  }

  @Test func `a job tries again after a failure and succeeds`() async throws {
    let tries = Journal<Int>()
    let job = try bench.job(
      policy(maxRetries: 1), retry: .fixed(attempts: .max, delay: .seconds(1))
    ) {
      tries.note(1)
      if tries.count == 1 { $0.failure(Refused()) } else { $0.success() }
    }
    job.start()
    try await bench.pass(.seconds(1))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 1", "successful, closed 0"])
  }

  @Test func `a job trips once its retries have failed, and stays open`() async throws {
    let job = try bench.job(policy(), retry: .fixed(attempts: .max, delay: .seconds(1))) {
      $0.failure(Refused(code: 404))
    }
    job.start()
    try await bench.pass(.seconds(1))
    try await bench.pass(.seconds(1))
    await bench.until(4)
    #expect(bench.events.entries.last == "tripped, open 3, 404")
    #expect(job.state == .open)
    #expect(job.failureCount == 3)
    job.start()
    #expect(bench.events.entries.last == "tripped, open 3, 404")
    #expect(job.failureCount == 3)
  }

  @Test func `a job waits between its retries for growing powers of its base`() async throws {
    let job = try bench.job(policy(), retry: .powers(of: 2, attempts: .max)) {
      $0.failure(Refused(code: 404))
    }
    job.start()
    try await bench.pass(.seconds(2))
    try await bench.pass(.seconds(4))
    await bench.until(4)
    #expect(
      bench.events.entries == ["work at 0", "work at 2", "work at 6", "tripped, open 3, 404"])
  }

  @Test func `a job is half-open after its open time and closes after a success`() throws {
    let tries = Journal<BreakerState>()
    let job = try bench.job(policy(maxRetries: 0, resetTimeout: .seconds(2))) {
      tries.note($0.job.state)
      if tries.count == 1 { $0.failure(Refused()) } else { $0.success() }
    }
    job.start()
    bench.host.clock.advance(by: .seconds(4))
    #expect(job.start())
    #expect(tries.entries == [.closed, .halfOpen])
    #expect(bench.events.entries.last == "successful, closed 0")
  }

  @Test func `a failed probe opens the job again at once, without a retry`() throws {
    let job = try bench.job(
      policy(maxRetries: 0), retry: .fixed(attempts: .max, delay: .seconds(1))
    ) { $0.failure(Refused(code: 404)) }
    job.start()
    bench.host.clock.advance(by: .seconds(10))
    job.start()
    #expect(bench.events.entries.suffix(2) == ["work at 10", "tripped, open 2, 404"])
    bench.host.clock.advance(by: .seconds(9))
    #expect(!job.start())
  }
}
