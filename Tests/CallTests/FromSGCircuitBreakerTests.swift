import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// What `SGCircuitBreaker(timeout:maxFailures:retryDelay:)` does, as a job.
private func retrying(every delay: Duration = .seconds(2)) -> RetryPolicy {
  .fixed(attempts: .max, delay: delay)
}

@Suite(.timeLimit(.minutes(5))) struct `A job in the place of an SGCircuitBreaker` {
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

/// Each of these goes wrong there.
@Suite(.timeLimit(.minutes(5))) struct `A job, unlike an SGCircuitBreaker,` {
  let bench = JobBench()

  @Test func `stays open after a trip, and is half-open when its time is over`() throws {
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

  @Test func `cannot be told to open before the first failure`() throws {
    let store = bench.host.store()
    for count in [0, -1] {
      let error = #expect(throws: BreakerError.self) {
        try store.breaker("api", policy: BreakerPolicy(maxFailures: count))
      }
      #expect(error?.description.contains("max-failures is \(count): use 1 to") == true)
    }
  }

  @Test func `keeps what is done while it tells of a trip`() throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) { $0.failure(Refused()) }
    let told = Journal<Bool>()
    job.tripped = { job, _ in
      // Not again without end: it is rejected, which is known already.
      told.note(job.start())
      #expect(throws: BreakerError.self) { try job.breaker.run {} }
    }
    job.start()
    job.start()
    #expect(told.entries == [false, false])
    #expect(job.state == .open)
    #expect(job.failureCount == 1)
  }

  @Test func `counts one report for an attempt, and takes none that is late`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 9), timeout: .seconds(3), retry: retrying()
    ) { attempts.note($0) }
    job.start()
    await bench.pass(.seconds(3))
    await bench.host.clock.untilSomebodySleeps(for: .seconds(2))
    // A late failure is not a second one, and a late success leaves the pending retry alone.
    #expect(attempts.entries[0].failure(Refused()) == false)
    #expect(attempts.entries[0].success() == false)
    #expect(job.failureCount == 1)
    await bench.pass(.seconds(2))
    await until { attempts.count == 2 }
    #expect(attempts.entries[0].failure(Refused()) == false)
    #expect(attempts.entries[1].success())
    #expect(attempts.entries[1].failure(Refused()) == false)
    #expect(job.failureCount == 0)
    #expect(job.breaker.snapshot().totals.failures == 1)
  }

  @Test func `schedules nothing for a report that nobody waits for`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job(retry: retrying()) {
      attempts.note($0)
      $0.success()
    }
    job.start()
    #expect(attempts.entries[0].failure(Refused()) == false)
    await until { bench.host.clock.sleeps.isEmpty }
    #expect(!job.isUnderWay)
    #expect(bench.events.entries == ["work at 0", "successful, closed 0"])
  }

  @Test func `does not run twice what is under way`() async throws {
    let attempts = Journal<JobAttempt>()
    let job = try bench.job { attempts.note($0) }
    #expect(job.start())
    #expect(!job.start())
    await bench.host.clock.untilSomebodySleeps(for: .seconds(10))
    #expect(attempts.count == 1)
    #expect(bench.host.clock.sleeps.count == 1)
    attempts.entries[0].success()
    #expect(job.start())
    #expect(attempts.count == 2)
    job.cancel()
  }

  @Test func `takes reports from all threads, and counts one of them`() throws {
    for _ in 0..<50 {
      let attempts = Journal<JobAttempt>()
      let job = try bench.job(BreakerPolicy(maxFailures: 1_000_000)) { attempts.note($0) }
      let before = job.breaker.snapshot().totals
      job.start()
      let counted = Journal<Int>()
      Threads.run(8) { thread in
        let attempt = attempts.entries[0]
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

  @Test func `shares its threshold with all other processes`() throws {
    let policy = BreakerPolicy(maxFailures: 3)
    let jobs = try (0..<3).map { _ in try bench.job(policy) { $0.failure(Refused()) } }
    for job in jobs { job.start() }
    for job in jobs { job.start() }
    #expect(bench.events.entries.filter { $0.hasPrefix("work") }.count == 3)
    #expect(jobs[0].breaker.snapshot().totals.failures == 3)
  }

  @Test func `does not look at the clock on the wall`() throws {
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
