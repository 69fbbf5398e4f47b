import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// What `CircuitBreaker(timeout:maxRetries:timeBetweenRetries:exponentialBackoff:resetTimeout:)`
/// does, as a job.
private func policy(maxRetries: Int = 2, resetTimeout: Duration = .seconds(10)) -> BreakerPolicy {
  BreakerPolicy(maxFailures: maxRetries + 1, openFor: resetTimeout)
}

@Suite(.timeLimit(.minutes(10))) struct `A job in the place of a CircuitBreaker` {
  let bench = JobBench()

  @Test func `is clean after a success`() throws {
    let job = try bench.job(policy()) { $0.success() }
    job.start()
    #expect(bench.events.entries == ["work at 0", "successful, closed 0"])
  }

  @Test func `takes work that is too late for a failure`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job(policy(), timeout: .seconds(3)) { attempts.note($0) }
    job.start()
    await bench.pass(.seconds(3))
    await bench.until(3)
    #expect(
      bench.events.entries == ["work at 0", "timed out, closed 0", "failed, closed 1, timeout"])
  }

  @Test func `tries again after a failure, and succeeds`() async throws {
    let tries = Journal<Int>()
    let job = try bench.job(
      policy(maxRetries: 1), retry: .fixed(attempts: .max, delay: .seconds(1))
    ) {
      tries.note(1)
      if tries.count == 1 { $0.failure(Refused()) } else { $0.success() }
    }
    job.start()
    await bench.pass(.seconds(1))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 1", "successful, closed 0"])
  }

  @Test func `trips after all its retries, and stays open`() async throws {
    let job = try bench.job(policy(), retry: .fixed(attempts: .max, delay: .seconds(1))) {
      $0.failure(Refused(code: 404))
    }
    job.start()
    await bench.pass(.seconds(1))
    await bench.pass(.seconds(1))
    await bench.until(4)
    #expect(bench.events.entries.last == "tripped, open 3, 404")
    #expect(job.state == .open)
    #expect(job.failureCount == 3)
    job.start()
    #expect(bench.events.entries.last == "tripped, open 3, 404")
    #expect(job.failureCount == 3)
  }

  @Test func `waits for powers of its base between its retries`() async throws {
    let job = try bench.job(policy(), retry: .powers(of: 2, attempts: .max)) {
      $0.failure(Refused(code: 404))
    }
    job.start()
    await bench.pass(.seconds(2))
    await bench.pass(.seconds(4))
    await bench.until(4)
    #expect(
      bench.events.entries == ["work at 0", "work at 2", "work at 6", "tripped, open 3, 404"])
  }

  @Test func `is half-open after its time, and closed after a success`() throws {
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

  @Test func `is open at once after a failure in half-open, without a retry`() throws {
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

/// Each of these goes wrong there.
@Suite(.timeLimit(.minutes(10))) struct `A job, unlike a CircuitBreaker,` {
  let bench = JobBench()

  @Test(arguments: [true, false])
  func `is over when its work reports before it returns`(succeeds: Bool) async throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) {
      if succeeds { $0.success() } else { $0.failure(Refused()) }
    }
    job.start()
    #expect(!job.isUnderWay)
    // No timer is left that would make a failure of it.
    await until { bench.host.clock.sleeps.isEmpty }
    bench.host.clock.advance(by: .seconds(100))
    #expect(job.breaker.snapshot().totals.failures == (succeeds ? 0 : 1))
    #expect(bench.events.count == 2)
  }

  @Test func `lets one probe through when it is half-open`() throws {
    let attempts = Journal<JobAttempt>()
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(1))
    let jobs = try (0..<5).map { _ in try bench.job(policy) { attempts.note($0) } }
    try jobs[0].breaker.trip()
    bench.host.clock.advance(by: .seconds(1))
    #expect(jobs.filter { $0.start() }.count == 1)
    #expect(attempts.entries.map(\.kind) == [.probe])
    try attempts.entry(0).success()
    #expect(jobs[1].start())
    jobs[1].cancel()
  }

  @Test func `stays open no longer because of failures that come in while it is`() throws {
    let attempts = Journal<JobAttempt>()
    let jobs = try (0..<3).map { _ in
      try bench.job(BreakerPolicy(maxFailures: 1, openFor: .seconds(10))) { attempts.note($0) }
    }
    for job in jobs { job.start() }
    try attempts.entry(0).failure(Refused(code: 0))
    bench.host.clock.advance(by: .seconds(6))
    try attempts.entry(1).failure(Refused(code: 1))
    #expect(jobs[0].breaker.snapshot().trips == 1)
    #expect(jobs[0].breaker.snapshot().retryAfter == .seconds(4))
    jobs[2].cancel()
  }

  @Test func `keeps its pending retry when it is started once more`() async throws {
    let tries = Journal<Int>()
    let job = try bench.job(retry: .fixed(attempts: .max, delay: .seconds(2))) {
      tries.note(1)
      if tries.count == 1 { $0.failure(Refused()) } else { $0.success() }
    }
    job.start()
    await bench.host.clock.untilSomebodySleeps(for: .seconds(2))
    #expect(!job.start())
    #expect(tries.count == 1)
    await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 2", "successful, closed 0"])
  }

  @Test func `cannot be open for ever from its birth`() {
    #expect(throws: BreakerError.self) { try bench.job(policy(maxRetries: -1)) { $0.success() } }
  }

  @Test func `says that it was a timeout which opened it`() async throws {
    let job = try bench.job(policy(maxRetries: 0), timeout: .seconds(1)) { _ in }
    job.start()
    await bench.pass(.seconds(1))
    await bench.until(3)
    #expect(bench.events.entries.last == "tripped, open 1, timeout")
  }

  @Test func `needs no run loop, and nobody to hold it`() async throws {
    let threads = Threads()
    let bench = bench
    threads.start {
      let tries = Journal<Int>()
      let job = try? bench.job(
        timeout: .seconds(1), retry: .fixed(attempts: .max, delay: .seconds(2))
      ) {
        tries.note(1)
        if tries.count == 2 { $0.success() }
      }
      job?.start()
    }
    threads.join()
    await bench.pass(.seconds(1))
    await bench.pass(.seconds(2))
    await bench.until(4)
    #expect(
      bench.events.entries == [
        "work at 0", "timed out, closed 0", "work at 3", "successful, closed 0",
      ])
  }
}
