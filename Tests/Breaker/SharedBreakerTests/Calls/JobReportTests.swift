import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Reports that come late, twice or at once, and starts of a job that is under way.
@Suite(.timeLimit(.minutes(60))) struct JobReportTests {
  let bench = JobBench()

  @Test(arguments: [true, false])
  func `a job is over when its work reports before the work returns`(succeeds: Bool) async throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) {
      if succeeds { $0.success() } else { $0.failure(Refused()) }
    }
    await job.start()
    #expect(!job.isUnderWay)
    // No timer is left that could turn it into a failure.
    await until { bench.host.clock.sleeps.isEmpty }
    bench.host.clock.advance(by: .seconds(100))
    #expect(job.breaker.snapshot().totals.failures == (succeeds ? 0 : 1))
    #expect(bench.events.count == 2)
  }

  @Test func `a job counts one report for each attempt and refuses late ones`() async throws {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 9), timeout: .seconds(3), retry: retrying()
    ) { attempts.note($0) }
    await job.start()
    try await bench.pass(.seconds(3))
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(2))
    // A late failure is not a second one, and a late success leaves the pending retry alone.
    #expect(try attempts.entry(0).failure(Refused()) == false)
    #expect(try attempts.entry(0).success() == false)
    #expect(job.failureCount == 1)
    try await bench.pass(.seconds(2))
    await until { attempts.count == 2 }
    #expect(try attempts.entry(0).failure(Refused()) == false)
    #expect(try attempts.entry(1).success())
    #expect(try attempts.entry(1).failure(Refused()) == false)
    #expect(job.failureCount == 0)
    #expect(job.breaker.snapshot().totals.failures == 1)
  }

  @Test func `a job counts one of the reports that several threads make at once`() throws {
    for _ in 0..<50 {
      let attempts = Notes<JobAttempt>()
      let job = try bench.job(BreakerPolicy(maxFailures: 1_000_000)) { attempts.note($0) }
      let before = job.breaker.snapshot().totals
      job.start()
      let attempt = try attempts.entry(0)
      let counted = Notes<Int>()
      Threads.run(8) { thread in
        if thread.isMultiple(of: 2) ? attempt.success() : attempt.failure(Refused()) {
          counted.note(thread)
        }
        _ = job.start()
      }
      #expect(counted.count == 1)
      job.cancel()
      let after = job.breaker.snapshot().totals
      #expect(after.successes + after.failures == before.successes + before.failures + 1)
      #expect(attempts.count == 2)
      #expect(after.ignored == before.ignored + 1)
    }
  }

  @Test func `an attempt knows its number and renews its time while it makes progress`()
    async throws
  {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job(timeout: .seconds(3), retry: retrying()) { attempts.note($0) }
    await job.start()
    let first = try attempts.entry(0)
    #expect(first.number == 1)
    for _ in 0..<5 {
      bench.host.clock.advance(by: .seconds(2))
      #expect(try first.renew())
      #expect(bench.host.clock.sleeps == [.seconds(3)])
    }
    // A renewal never shortens the time, and one that is longer holds.
    #expect(try first.renew(for: .seconds(1)))
    #expect(bench.host.clock.sleeps == [.seconds(3)])
    #expect(try first.renew(for: .seconds(9)))
    bench.host.clock.advance(by: .seconds(8))
    #expect(bench.events.entries == ["work at 0"])
    bench.host.clock.advance(by: .seconds(1))
    await bench.until(2)
    #expect(bench.events.entries == ["work at 0", "timed out, closed 0"])
    #expect(try !first.renew())
    try await bench.pass(.seconds(2))
    await until { attempts.count == 2 }
    #expect(try attempts.entry(1).number == 2)
    #expect(try attempts.entry(1).success())
  }

  /// A job with a timeout of 20 seconds, and its first attempt, which is a probe.
  private func jobThatProbes() throws -> (job: BreakerJob, probe: JobAttempt) {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 1, openFor: .seconds(1)), timeout: .seconds(20)
    ) { attempts.note($0) }
    try job.breaker.trip()
    bench.host.clock.advance(by: .seconds(1))
    job.start()
    return (job, try attempts.entry(0))
  }

  @Test func `a probe of a job keeps its lease for as long as it renews its time`() async throws {
    let (job, probe) = try jobThatProbes()
    #expect(probe.kind == .probe)
    for _ in 0..<6 {
      bench.host.clock.advance(by: .seconds(19))
      #expect(try probe.renew())
    }
    #expect(probe.success())
    #expect(job.state == .closed)
    #expect(job.breaker.snapshot().totals.failures == 0)
  }

  @Test func `an attempt whose lease cannot be renewed keeps the time it had`() async throws {
    let (job, probe) = try jobThatProbes()
    bench.host.clock.advance(by: .seconds(15))
    bench.host.failStore(with: .busy)
    let error = #expect(throws: BreakerError.self) { try probe.renew() }
    guard case .store = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(bench.host.clock.sleeps == [.seconds(5)])
    bench.host.repairStore()
    // A process tries a store that has failed again after a second.
    bench.host.clock.advance(by: .seconds(1))
    #expect(try probe.renew())
    #expect(bench.host.clock.sleeps == [.seconds(20)])
    // A lease that is lost cannot be renewed.
    try job.breaker.reset()
    job.cancel()
    #expect(try !probe.renew())
  }

  @Test func `threads that renew and report at once end an attempt once`() throws {
    for _ in 0..<50 {
      let attempts = Notes<JobAttempt>()
      let job = try bench.job(BreakerPolicy(maxFailures: 9)) { attempts.note($0) }
      job.start()
      let attempt = try attempts.entry(0)
      let counted = Notes<Int>()
      Threads.run(8) { thread in
        if thread < 6 { _ = try? attempt.renew(for: .seconds(20 + thread)) }
        if thread >= 6, attempt.success() { counted.note(thread) }
      }
      #expect(counted.count == 1)
      #expect(!job.isUnderWay)
      #expect(bench.host.clock.sleeps.isEmpty)
      #expect((try? attempt.renew()) == false)
    }
  }

  @Test func `a report after the job has ended schedules nothing`() async throws {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job(retry: retrying()) {
      attempts.note($0)
      $0.success()
    }
    await job.start()
    #expect(try attempts.entry(0).failure(Refused()) == false)
    await until { bench.host.clock.sleeps.isEmpty }
    #expect(!job.isUnderWay)
    #expect(bench.events.entries == ["work at 0", "successful, closed 0"])
  }

  @Test func `failures reported while a job is open do not lengthen its open time`() throws {
    let attempts = Notes<JobAttempt>()
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

  @Test func `a job that is under way does not run its work twice`() async throws {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job { attempts.note($0) }
    #expect(job.start())
    #expect(!job.start())
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(10))
    #expect(attempts.count == 1)
    #expect(bench.host.clock.sleeps.count == 1)
    try attempts.entry(0).success()
    #expect(job.start())
    #expect(attempts.count == 2)
    job.cancel()
  }

  @Test func `starting a job again keeps its pending retry`() async throws {
    let tries = Notes<Int>()
    let job = try bench.job(retry: .fixed(attempts: .max, delay: .seconds(2))) {
      tries.note(1)
      if tries.count == 1 { $0.failure(Refused()) } else { $0.success() }
    }
    await job.start()
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(2))
    #expect(!job.start())
    #expect(tries.count == 1)
    try await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 2", "successful, closed 0"])
  }

  @Test func `resetting a job abandons its work and calls nothing back`() async throws {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) { attempts.note($0) }
    try job.breaker.trip()
    try job.reset()
    #expect(job.state == .closed)
    await job.start()
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(10))
    try job.reset()
    #expect(!job.isUnderWay)
    #expect(attempts.entries.first?.failure(Refused()) == false)
    await until { bench.host.clock.sleeps.isEmpty }
    #expect(bench.events.entries == ["work at 0"])
    #expect(job.failureCount == 0)
  }
}
