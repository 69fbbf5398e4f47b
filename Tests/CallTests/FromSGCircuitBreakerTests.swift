import SharedBreaker
import SharedBreakerTesting
import Testing

/// The retries of an `SGCircuitBreaker(timeout:maxFailures:retryDelay:)`, for a job.
func retrying(every delay: Duration = .seconds(2)) -> RetryPolicy {
  .fixed(attempts: .max, delay: delay)
}

/// A job in the place of an `SGCircuitBreaker` does what that did.
@Suite(.timeLimit(.minutes(60))) struct FromSGCircuitBreakerTests {
  let bench = JobBench()

  @Test func `a job resets its failures before it reports a success`() async throws {
    let job = try bench.job(retry: retrying()) { attempt in
      if attempt.job.failureCount == 0 { attempt.failure(Refused()) } else { attempt.success() }
    }
    #expect(job.start())
    try await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 2", "successful, closed 0"])
    #expect(job.failureCount == 0)
    #expect(job.state == .closed)
    #expect(!job.isUnderWay)
  }

  @Test func `a job with one failure allowed trips after one run and does not retry`() throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1), retry: retrying()) {
      $0.failure(Refused(code: 500))
    }
    job.start()
    #expect(bench.events.entries == ["work at 0", "tripped, open 1, 500"])
    #expect(bench.host.clock.sleeps.isEmpty)
  }

  @Test func `a job that times out tries again and succeeds at the second attempt`()
    async throws
  {
    let work = Journal<JobAttempt>()
    let job = try bench.job(timeout: .seconds(3), retry: retrying()) { work.note($0) }
    job.start()
    try await bench.pass(.seconds(3))
    try await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(work.entries.last?.success() == true)
    #expect(
      bench.events.entries == [
        "work at 0", "timed out, closed 0", "work at 5", "successful, closed 0",
      ])
  }

  @Test func `a job that reports a trip is open and gives its count and last error`() async throws {
    let job = try bench.job(retry: retrying()) { $0.failure(Refused(code: 400)) }
    job.start()
    try await bench.pass(.seconds(2))
    try await bench.pass(.seconds(2))
    await bench.until(4)
    #expect(
      bench.events.entries == ["work at 0", "work at 2", "work at 4", "tripped, open 3, 400"])
  }

  @Test func `a job keeps its last error when a failure has none`() async throws {
    let tries = Journal<Int>()
    let job = try bench.job(BreakerPolicy(maxFailures: 2), retry: retrying()) {
      tries.note(1)
      $0.failure(tries.count == 1 ? Refused(code: 400) : nil)
    }
    job.start()
    try await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries.last == "tripped, open 2, 400")
    let silent = try bench.job(BreakerPolicy(maxFailures: 1), name: "silent") { $0.failure() }
    silent.start()
    #expect(bench.events.entries.last == "tripped, open 1, no error")
  }

  @Test func `a job does not run its work while the breaker is open`() throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) { $0.failure(Refused(code: 7)) }
    job.start()
    #expect(!job.start())
    #expect(
      bench.events.entries == ["work at 0", "tripped, open 1, 7", "tripped, open 1, 7"])
    let other = try bench.job { $0.success() }
    other.start()
    #expect(bench.events.entries.last == "tripped, open 1, rejected")
  }

  @Test func `resetting a job abandons its work and calls nothing back`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) { attempts.note($0) }
    try job.breaker.trip()
    try job.reset()
    #expect(job.state == .closed)
    job.start()
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(10))
    try job.reset()
    #expect(!job.isUnderWay)
    #expect(attempts.entries.first?.failure(Refused()) == false)
    await until { bench.host.clock.sleeps.isEmpty }
    #expect(bench.events.entries == ["work at 0"])
    #expect(job.failureCount == 0)
  }

  @Test func `a job writes readable lines to its log`() async throws {
    let lines = Journal<String>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 2), timeout: .seconds(5), retry: retrying()
    ) { if lines.count == 1 { $0.failure(Refused()) } }
    job.log = { lines.note($0) }
    job.start()
    try await bench.pass(.seconds(2))
    try await bench.pass(.seconds(5))
    await bench.until(4)
    try job.reset()
    #expect(
      lines.entries == [
        "api: the work begins", "api: a failure was reported: Refused(code: 500)",
        "api: the work will be tried again in 2.0 seconds", "api: the work begins",
        "api: the work has timed out", "api: the breaker has been tripped",
        "api: the breaker has been reset",
      ])
  }
}
