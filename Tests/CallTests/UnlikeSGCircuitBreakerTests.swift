import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Where a job differs from an `SGCircuitBreaker`, which goes wrong in each of these cases.
@Suite(.timeLimit(.minutes(60))) struct UnlikeSGCircuitBreakerTests {
  let bench = JobBench()

  @Test func `a job stays open after a trip and is half-open when its time is over`() throws {
    let states = Journal<BreakerState>()
    let job = try bench.job(BreakerPolicy(maxFailures: 1, openFor: .seconds(30))) { attempt in
      states.note(attempt.job.state)
      if states.count == 1 { attempt.failure(Refused()) } else { attempt.success() }
    }
    job.start()
    job.start()
    bench.host.clock.advance(by: .seconds(30))
    job.start()
    #expect(states.entries == [.closed, .halfOpen])
    #expect(job.state == .closed)
  }

  @Test func `a policy that would open before the first failure is refused`() throws {
    let store = bench.host.store()
    for count in [0, -1] {
      let error = #expect(throws: BreakerError.self) {
        try store.breaker("api", policy: BreakerPolicy(maxFailures: count))
      }
      #expect(error?.description.contains("max-failures is \(count): use 1 to") == true)
    }
  }

  @Test func `a job that is started in its own trip callback is rejected and stays open`() throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) { $0.failure(Refused()) }
    let told = Journal<Bool>()
    job.tripped = { job, _ in
      // This does not recurse: the rejection calls nothing back from within the callback.
      told.note(job.start())
      #expect(throws: BreakerError.self) { try job.breaker.run {} }
    }
    job.start()
    job.start()
    #expect(told.entries == [false, false])
    #expect(job.state == .open)
    #expect(job.failureCount == 1)
  }

  @Test func `a job counts one report for each attempt and refuses late ones`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 9), timeout: .seconds(3), retry: retrying()
    ) { attempts.note($0) }
    job.start()
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

  @Test func `a report that nobody waits for schedules nothing`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job(retry: retrying()) {
      attempts.note($0)
      $0.success()
    }
    job.start()
    #expect(try attempts.entry(0).failure(Refused()) == false)
    await until { bench.host.clock.sleeps.isEmpty }
    #expect(!job.isUnderWay)
    #expect(bench.events.entries == ["work at 0", "successful, closed 0"])
  }

  @Test func `a job that is under way does not run its work twice`() async throws {
    let attempts = Journal<JobAttempt>()
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

  @Test func `a job counts one of the reports that several threads make at once`() throws {
    for _ in 0..<50 {
      let attempts = Journal<JobAttempt>()
      let job = try bench.job(BreakerPolicy(maxFailures: 1_000_000)) { attempts.note($0) }
      let before = job.breaker.snapshot().totals
      job.start()
      let attempt = try attempts.entry(0)
      let counted = Journal<Int>()
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

  @Test func `jobs that use one breaker share its threshold`() throws {
    let policy = BreakerPolicy(maxFailures: 3)
    let jobs = try (0..<3).map { _ in try bench.job(policy) { $0.failure(Refused()) } }
    for job in jobs { job.start() }
    for job in jobs { job.start() }
    #expect(bench.events.entries.filter { $0.hasPrefix("work") }.count == 3)
    #expect(jobs[0].breaker.snapshot().totals.failures == 3)
  }

  @Test func `a jump of the wall clock does not close a job`() throws {
    let wall = Journal<Int64>()
    let clock = StoreClock(
      bootNanoseconds: { 1_000_000_000 }, wallMilliseconds: { Int64(wall.count) * 31_536_000_000 },
      bootID: { "boot" })
    let stage = try Stage()
    let store = SharedStore(path: stage.store, options: StoreOptions(clock: clock))
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 1))
    let job = BreakerJob(breaker) { $0.failure(Refused()) }
    job.start()
    for _ in 0..<3 {
      wall.note(1)
      #expect(!job.start())
      #expect(job.state == .open)
    }
  }
}
