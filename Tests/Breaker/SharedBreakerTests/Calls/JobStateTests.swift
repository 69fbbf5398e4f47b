import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Jobs and the state of the breaker that they share.
@Suite(.timeLimit(.minutes(60))) struct JobStateTests {
  let bench = JobBench()

  @Test func `a job is half-open after its open time and closes after a success`() throws {
    let tries = Notes<BreakerState>()
    let job = try bench.job(BreakerPolicy(maxFailures: 1, openFor: .seconds(2))) {
      tries.note($0.job.state)
      if tries.count == 1 { $0.failure(Refused()) } else { $0.success() }
    }
    job.start()
    bench.host.clock.advance(by: .seconds(4))
    #expect(job.start())
    #expect(tries.entries == [.closed, .halfOpen])
    #expect(bench.events.entries.last == "successful, closed 0")
  }

  @Test func `a job stays open after a trip and is half-open when its time is over`() throws {
    let states = Notes<BreakerState>()
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

  @Test func `a failed probe opens the job again at once, without a retry`() throws {
    let job = try bench.job(
      BreakerPolicy(maxFailures: 1, openFor: .seconds(10)),
      retry: .fixed(attempts: .max, delay: .seconds(1))
    ) { $0.failure(Refused(code: 404)) }
    job.start()
    bench.host.clock.advance(by: .seconds(10))
    job.start()
    #expect(bench.events.entries.suffix(2) == ["work at 10", "tripped, open 2, 404"])
    bench.host.clock.advance(by: .seconds(9))
    #expect(!job.start())
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

  @Test func `only one of several jobs becomes the probe of a half-open breaker`() throws {
    let attempts = Notes<JobAttempt>()
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

  @Test func `jobs that use one breaker share its threshold`() throws {
    let policy = BreakerPolicy(maxFailures: 3)
    let jobs = try (0..<3).map { _ in try bench.job(policy) { $0.failure(Refused()) } }
    for job in jobs { job.start() }
    for job in jobs { job.start() }
    #expect(bench.events.entries.filter { $0.hasPrefix("work") }.count == 3)
    #expect(jobs[0].breaker.snapshot().totals.failures == 3)
  }

  @Test func `a job that is started in its own trip callback is rejected and stays open`() throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1)) { $0.failure(Refused()) }
    let told = Notes<Bool>()
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

  @Test func `a jump of the wall clock does not close a job`() throws {
    let wall = Notes<Int64>()
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

  @Test func `a policy that would open before the first failure is refused`() throws {
    let store = bench.host.store()
    for count in [0, -1] {
      let error = #expect(throws: BreakerError.self) {
        try store.breaker("api", policy: BreakerPolicy(maxFailures: count))
      }
      #expect(error?.description.contains("max-failures is \(count): use 1 to") == true)
    }
  }
}
