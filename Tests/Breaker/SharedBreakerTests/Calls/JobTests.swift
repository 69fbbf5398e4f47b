import SharedBreaker
import SharedBreakerTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct JobTests {
  let bench = JobBench()

  @Test
  func `a job gives up when its attempts are used up and the breaker is closed`() async throws {
    let job = try bench.job(
      BreakerPolicy(maxFailures: 9), retry: .fixed(attempts: 2, delay: .seconds(1))
    ) { $0.failure(Refused(code: 1)) }
    await job.start()
    try await bench.pass(.seconds(1))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 1", "failed, closed 2, 1"])
    #expect(!job.isUnderWay)
  }

  @Test func `a job gives up at an error that its retry policy does not accept`() throws {
    let retry = RetryPolicy.fixed(
      attempts: 5, delay: .zero, retryIf: { ($0 as? Refused)?.code == 503 })
    let job = try bench.job(retry: retry) { $0.failure(Refused(code: 404)) }
    job.start()
    #expect(bench.events.entries == ["work at 0", "failed, closed 1, 404"])
  }

  @Test func `an ignored or cancelled job counts neither as a success nor as a failure`() throws {
    let ends: [@Sendable (JobAttempt) -> Void] = [
      { $0.ignore() }, { $0.failure(CancellationError()) }, { $0.job.cancel() },
    ]
    for end in ends {
      let host = TestHost()
      let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(1))
      let breaker = try host.store().breaker("api", policy: policy)
      try breaker.trip()
      host.clock.advance(by: .seconds(1))
      let job = BreakerJob(breaker, work: end)
      job.start()
      #expect(!job.isUnderWay)
      #expect(job.state == .halfOpen)
      #expect(breaker.snapshot().permits)
      #expect(breaker.snapshot().totals.ignored == 1)
    }
  }

  @Test func `a job opens the breaker at once if its error says so`() throws {
    let breaker = try bench.host.store().breaker("api", policy: BreakerPolicy(maxFailures: 9))
    let job = BreakerJob(
      breaker, retry: .fixed(attempts: 9, delay: .zero),
      outcome: { _ in .failure(opensFor: .seconds(90)) }
    ) { $0.failure(Refused()) }
    let tripped = Notes<Duration?>()
    job.tripped = { job, _ in tripped.note(job.breaker.snapshot().retryAfter) }
    job.start()
    #expect(tripped.entries == [.seconds(90)])
  }

  @Test func `a job retries a value that is a failure and ends in its failed callback`()
    async throws
  {
    let job = try bench.job(
      BreakerPolicy(maxFailures: 9), retry: .fixed(attempts: 2, delay: .seconds(1))
    ) { $0.report(.http(status: 503)) }
    await job.start()
    try await bench.pass(.seconds(1))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 1", "failed, closed 2, no error"])
    #expect(job.breaker.snapshot().lastError == "HTTP 503")
  }

  @Test func `a job acts on what a reported value says about the resource`() throws {
    let answers = [CallOutcome.http(status: 200), .ignored, .http(status: 503, retryAfter: "90")]
    let job = try bench.job(retry: .fixed(attempts: 9, delay: .zero)) {
      $0.report(answers[bench.events.entries.count { $0.hasPrefix("work") } - 1])
    }
    for _ in answers { job.start() }
    #expect(
      bench.events.entries == [
        "work at 0", "successful, closed 0", "work at 0", "failed, closed 0, no error",
        "work at 0", "tripped, open 1, no error",
      ])
    #expect(job.breaker.snapshot().retryAfter == .seconds(90))
  }

  @Test func `a job that waits to retry reports a trip by another caller`() async throws {
    let job = try bench.job(retry: .fixed(attempts: 9, delay: .seconds(1))) {
      $0.failure(Refused(code: 5))
    }
    await job.start()
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(1))
    try job.breaker.trip()
    try await bench.pass(.seconds(1))
    await bench.until(2)
    #expect(bench.events.entries == ["work at 0", "tripped, open 1, 5"])
  }

  @Test func `a cancelled job calls nothing back, whatever it was doing`() async throws {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job(retry: .fixed(attempts: 9, delay: .seconds(1))) { attempts.note($0) }
    job.cancel()
    await job.start()
    job.cancel()
    #expect(try attempts.entry(0).success() == false)
    await job.start()
    try attempts.entry(1).failure(Refused())
    job.cancel()
    #expect(!job.isUnderWay)
    await until { bench.host.clock.sleeps.isEmpty }
    #expect(bench.events.entries == ["work at 0", "work at 0"])
    #expect(job.failureCount == 1)
  }

  @Test func `a job that its own timeout hook cancels calls nothing back`() async throws {
    let job = try bench.job(
      BreakerPolicy(maxFailures: 1), timeout: .seconds(3),
      retry: .fixed(attempts: 9, delay: .seconds(1))
    ) { _ in }
    job.timedOut = { $0.cancel() }
    await job.start()
    try await bench.pass(.seconds(3))
    await until { job.state == .open }
    #expect(!job.isUnderWay)
    #expect(await job.start() == false)
    #expect(bench.events.entries == ["work at 0", "tripped, open 1, rejected"])
  }

  @Test func `a job forgets its last error after a success`() throws {
    let tries = Notes<Int>()
    let job = try bench.job {
      tries.note(1)
      if tries.count == 1 { $0.failure(Refused(code: 404)) } else { $0.success() }
    }
    job.start()
    job.start()
    try job.breaker.trip()
    job.start()
    #expect(bench.events.entries.last == "tripped, open 0, rejected")
  }

  @Test func `a job may be started again from its own callback`() throws {
    let rounds = Notes<Int>()
    let job = try bench.job { $0.success() }
    job.successful = { job in
      rounds.note(1)
      if rounds.count < 5 { job.start() }
    }
    job.start()
    #expect(rounds.count == 5)
    #expect(job.breaker.snapshot().totals.successes == 5)
  }

  @Test func `a job goes on when its timeout hook cancels it and starts it again`() async throws {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 9), timeout: .seconds(3),
      retry: .fixed(attempts: 9, delay: .seconds(1))
    ) { attempts.note($0) }
    job.timedOut = { job in
      #expect(!job.start(), "it is still under way")
      job.cancel()
      job.timedOut = nil
      #expect(job.start())
    }
    await job.start()
    try await bench.pass(.seconds(3))
    await until { attempts.count == 2 && job.failureCount == 1 }
    #expect(try attempts.entry(1).failure(Refused()))
    // This is the first failure of the second run, so another attempt follows.
    try await bench.pass(.seconds(1))
    await until { attempts.count == 3 }
    #expect(try attempts.entry(2).success())
    #expect(
      bench.events.entries == ["work at 0", "work at 3", "work at 4", "successful, closed 0"])
  }

  @Test func `a job is freed when it is over and nothing refers to it`() async throws {
    weak var freed: BreakerJob?
    do {
      let job = try bench.job(retry: .fixed(attempts: 2, delay: .seconds(1))) {
        $0.failure(Refused())
      }
      freed = job
      await job.start()
    }
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(1))
    #expect(freed != nil)
    try await bench.pass(.seconds(1))
    await bench.until(3)
    await until { freed == nil }
    #expect(bench.events.entries.last == "failed, closed 2, 500")
  }

  /// A job whose next attempt is a probe, with a lease that is shorter than its own timeout.
  private func probing(
    timeout: Duration, timer: StoreTimer? = nil, _ work: @escaping @Sendable (JobAttempt) -> Void
  ) throws -> BreakerJob {
    let policy = BreakerPolicy(
      maxFailures: 1, openFor: .seconds(1), probeTimeout: .seconds(2))
    let breaker = try bench.host.store(timer: timer).breaker("api", policy: policy)
    try breaker.trip()
    bench.host.clock.advance(by: .seconds(1))
    return bench.noting(BreakerJob(breaker, timeout: timeout, work: work))
  }

  @Test func `a probe may take as long as the timeout of its job or call`() async throws {
    let clock = bench.host.clock
    let job = try probing(timeout: .seconds(9)) {
      clock.advance(by: .seconds(5))
      $0.success()
    }
    await job.start()
    #expect(bench.events.entries == ["successful, closed 0"])
    try job.breaker.trip()
    clock.advance(by: .seconds(1))
    try await job.breaker.run(timeout: .seconds(9)) { clock.advance(by: .seconds(5)) }
    #expect(job.state == .closed)
  }

  @Test func `a job whose probe reports after its lease has timed out`() throws {
    // The timer never fires, as while the process is stopped.
    let timer = StoreTimer { _, _ in {} }
    let clock = bench.host.clock
    let reports = Notes<Bool>()
    let job = try probing(timeout: .seconds(9), timer: timer) {
      clock.advance(by: .seconds(9.5))
      reports.note($0.success())
    }
    job.start()
    #expect(bench.events.entries == ["timed out, open 1", "tripped, open 1, timeout"])
    #expect(reports.entries == [false])
    #expect(job.breaker.snapshot().totals.successes == 0)
  }

  @Test func `a job gives up if its store fails and is set to throw`() throws {
    let options = StoreOptions(onStoreFailure: .throw)
    let store = SharedStore(path: "/proc/no-such-folder/breakers.db", options: options)
    let job = BreakerJob(try store.breaker("api")) { _ in Issue.record("the work was run") }
    let failures = Notes<Bool>()
    job.failed = { _, error in failures.note(error is BreakerError) }
    #expect(!job.start())
    #expect(failures.entries == [true])
  }
}
