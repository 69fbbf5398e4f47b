import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Where a job differs from a `CircuitBreaker`, which goes wrong in each of these cases.
@Suite(.timeLimit(.minutes(60))) struct UnlikeCircuitBreakerTests {
  let bench = JobBench()

  @Test(arguments: [true, false])
  func `a job is over when its work reports before the work returns`(succeeds: Bool) async throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) {
      if succeeds { $0.success() } else { $0.failure(Refused()) }
    }
    job.start()
    #expect(!job.isUnderWay)
    // No timer is left that would turn it into a failure.
    await until { bench.host.clock.sleeps.isEmpty }
    bench.host.clock.advance(by: .seconds(100))
    #expect(job.breaker.snapshot().totals.failures == (succeeds ? 0 : 1))
    #expect(bench.events.count == 2)
  }

  @Test func `only one of several jobs becomes the probe of a half-open breaker`() throws {
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

  @Test func `failures reported while a job is open do not lengthen its open time`() throws {
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

  @Test func `starting a job again keeps its pending retry`() async throws {
    let tries = Journal<Int>()
    let job = try bench.job(retry: .fixed(attempts: .max, delay: .seconds(2))) {
      tries.note(1)
      if tries.count == 1 { $0.failure(Refused()) } else { $0.success() }
    }
    job.start()
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(2))
    #expect(!job.start())
    #expect(tries.count == 1)
    try await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 2", "successful, closed 0"])
  }

  @Test func `a job whose policy allows no failure at all is refused`() {
    #expect(throws: BreakerError.self) { try bench.job(policy(maxRetries: -1)) { $0.success() } }
  }

  @Test
  func `a job that trips because of a timeout reports the timeout as its error`() async throws {
    let job = try bench.job(policy(maxRetries: 0), timeout: .seconds(1)) { _ in }
    job.start()
    try await bench.pass(.seconds(1))
    await bench.until(3)
    #expect(bench.events.entries.last == "tripped, open 1, timeout")
  }

  @Test func `a job needs no run loop and no reference to keep it alive`() async throws {
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
    try await bench.pass(.seconds(1))
    try await bench.pass(.seconds(2))
    await bench.until(4)
    #expect(
      bench.events.entries == [
        "work at 0", "timed out, closed 0", "work at 3", "successful, closed 0",
      ])
  }
}
