import SharedBreaker
import SharedBreakerTesting
import Testing

/// What `SGCircuitBreaker(timeout:maxFailures:retryDelay:)` does, as a job.
func retrying(every delay: Duration = .seconds(2)) -> RetryPolicy {
  .fixed(attempts: .max, delay: delay)
}

@Suite(.timeLimit(.minutes(10))) struct `A job in the place of an SGCircuitBreaker` {
  let bench = JobBench()

  @Test func `reports success with a state that is already clean`() async throws {
    let job = try bench.job(retry: retrying()) { attempt in
      if attempt.job.failureCount == 0 { attempt.failure(Refused()) } else { attempt.success() }
    }
    #expect(job.start())
    await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 2", "successful, closed 0"])
    #expect(job.failureCount == 0)
    #expect(job.state == .closed)
    #expect(!job.isUnderWay)
  }

  @Test func `trips after one run with one failure allowed, and does not retry`() throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1), retry: retrying()) {
      $0.failure(Refused(code: 500))
    }
    job.start()
    #expect(bench.events.entries == ["work at 0", "tripped, open 1, 500"])
    #expect(bench.host.clock.sleeps.isEmpty)
  }

  @Test func `times out, lets the hook cancel the work, and succeeds at the second go`()
    async throws
  {
    let work = Journal<JobAttempt>()
    let job = try bench.job(timeout: .seconds(3), retry: retrying()) { work.note($0) }
    job.start()
    await bench.pass(.seconds(3))
    await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(work.entries.last?.success() == true)
    #expect(
      bench.events.entries == [
        "work at 0", "timed out, closed 0", "work at 5", "successful, closed 0",
      ])
  }

  @Test func `trips while it is seen to be open, with the count and the last error`() async throws {
    let job = try bench.job(retry: retrying()) { $0.failure(Refused(code: 400)) }
    job.start()
    await bench.pass(.seconds(2))
    await bench.pass(.seconds(2))
    await bench.until(4)
    #expect(
      bench.events.entries == ["work at 0", "work at 2", "work at 4", "tripped, open 3, 400"])
  }

  @Test func `keeps its last error when a failure has none`() async throws {
    let tries = Journal<Int>()
    let job = try bench.job(BreakerPolicy(maxFailures: 2), retry: retrying()) {
      tries.note(1)
      $0.failure(tries.count == 1 ? Refused(code: 400) : nil)
    }
    job.start()
    await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries.last == "tripped, open 2, 400")
    let silent = try bench.job(BreakerPolicy(maxFailures: 1), name: "silent") { $0.failure() }
    silent.start()
    #expect(bench.events.entries.last == "tripped, open 1, no error")
  }

  @Test func `does not run the work while the breaker is open`() throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) { $0.failure(Refused(code: 7)) }
    job.start()
    #expect(!job.start())
    #expect(
      bench.events.entries == ["work at 0", "tripped, open 1, 7", "tripped, open 1, 7"])
    let other = try bench.job { $0.success() }
    other.start()
    #expect(bench.events.entries.last == "tripped, open 1, rejected")
  }

  @Test func `resets without a word, and abandons the work`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) { attempts.note($0) }
    try job.breaker.trip()
    try job.reset()
    #expect(job.state == .closed)
    job.start()
    await bench.host.clock.untilSomebodySleeps(for: .seconds(10))
    try job.reset()
    #expect(!job.isUnderWay)
    #expect(attempts.entries.first?.failure(Refused()) == false)
    await until { bench.host.clock.sleeps.isEmpty }
    #expect(bench.events.entries == ["work at 0"])
    #expect(job.failureCount == 0)
  }

  @Test func `writes lines for people if it is asked to`() async throws {
    let lines = Journal<String>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 2), timeout: .seconds(5), retry: retrying()
    ) { if lines.count == 1 { $0.failure(Refused()) } }
    job.log = { lines.note($0) }
    job.start()
    await bench.pass(.seconds(2))
    await bench.pass(.seconds(5))
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
