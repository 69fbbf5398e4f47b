import SharedBreakerTesting
import TestSupport
import Testing

@testable import SharedBreaker

/// Calls that are sent again under a budget which all processes share.
@Suite(.timeLimit(.minutes(60))) struct BudgetedRetryTests {
  private let host = TestHost()

  private static func policy(maxConcurrent: Int? = nil) -> BreakerPolicy {
    BreakerPolicy(maxFailures: 1_000_000, maxConcurrent: maxConcurrent, retryBudget: 0.2)
  }

  private func breaker(_ policy: BreakerPolicy = policy()) throws -> Breaker {
    try host.store().breaker("search", policy: policy)
  }

  private func fail(_ count: Int, _ breaker: Breaker) {
    for _ in 0..<count { try? breaker.run { throw Refused() } }
  }

  /// Sends a call again, which fails; the rejection if it is not sent.
  private func retry(_ breaker: Breaker) -> Rejection? {
    do throws(BreakerError) {
      try breaker.acquire(isRetry: true).fail()
      return nil
    } catch {
      return error.rejection
    }
  }

  private func retries(_ breaker: Breaker) -> Int {
    var sent = 0
    while sent < 10_000, retry(breaker) == nil { sent += 1 }
    return sent
  }

  @Test(arguments: [nil, 8])
  func `a fifth of a thousand failed calls is sent again, and then ten a second`(
    maxConcurrent: Int?
  ) throws {
    let breaker = try breaker(Self.policy(maxConcurrent: maxConcurrent))
    fail(1_000, breaker)
    #expect(retries(breaker) == 200)
    let rejection = try #require(retry(breaker))
    #expect(rejection.cause == .retryBudget && rejection.state == .closed)
    let wait = try #require(rejection.retryAfter)
    #expect(wait > .zero && wait <= .seconds(1))
    #expect(
      breaker.snapshot().retries
        == RetrySnapshot(firstAttempts: 1_000, sent: 200, permitsAnother: false))
    host.clock.advance(by: wait)
    #expect(breaker.snapshot().retries?.permitsAnother == true)
    #expect(retries(breaker) == 10)
    host.clock.advance(by: .seconds(60))
    #expect(retries(breaker) == 10)
    let totals = breaker.snapshot().totals
    #expect(totals.retries == 220 && totals.overBudget == 4)
    #expect(totals.failures == 1_220 && totals.rejections == 0)
    #expect(breaker.snapshot().limit?.unitsInUse ?? 0 == 0)
  }

  @Test func `calls that succeed are first attempts, too`() throws {
    let breaker = try breaker()
    try breaker.run {}
    for _ in 0..<999 { try breaker.run {} }
    #expect(breaker.snapshot().retries?.firstAttempts == 1_000)
    #expect(retries(breaker) == 200)
  }

  @Test func `a call whose retry is not sent ends with the outcome of its attempt`() async throws {
    let breaker = try breaker()
    #expect(retries(breaker) == 10)
    let runs = Notes<Int>()
    #expect(throws: Refused.self) {
      try breaker.run(retry: .fixed(attempts: 5, delay: .zero)) {
        runs.note(1)
        throw Refused()
      }
    }
    await #expect(throws: Refused.self) {
      try await breaker.run(retry: .fixed(attempts: 5, delay: .zero)) { () async throws in
        await Task.yield()
        runs.note(2)
        throw Refused()
      }
    }
    #expect(runs.entries == [1, 2])
    #expect(breaker.snapshot().totals.retries == 10)
  }

  @Test func `a job whose retry is not sent has failed, and has not tripped`() async throws {
    let bench = JobBench()
    let job = try bench.job(Self.policy(), retry: .fixed(attempts: 3, delay: .zero)) {
      $0.failure(Refused(code: 7))
    }
    #expect(retries(job.breaker) == 10)
    await job.start()
    await bench.until(2)
    #expect(bench.events.entries == ["work at 0", "failed, closed 11, 7"])
  }

  @Test func `a job whose retry finds no turn under a rate has failed, and has not tripped`()
    async throws
  {
    let bench = JobBench()
    let policy = BreakerPolicy(rate: .calls(1, per: .seconds(60)))
    let job = try bench.job(policy, retry: .fixed(attempts: 3, delay: .zero)) {
      $0.failure(Refused(code: 7))
    }
    await job.start()
    await bench.until(2)
    #expect(bench.events.entries == ["work at 0", "failed, closed 1, 7"])
  }

  @Test func `a process that permits calls without its store keeps to a budget too`() throws {
    let process = host.process()
    host.failStore(with: .inputOutput)
    let breaker = try process.store().breaker(
      "search", policy: Self.policy(), onStoreFailure: .permit)
    fail(100, breaker)
    #expect(retries(breaker) == 20)
    #expect(retry(breaker)?.cause == .retryBudget)
  }

  @Test func `a call that is rejected for another cause is no retry`() throws {
    let breaker = try breaker(BreakerPolicy(maxFailures: 1, retryBudget: 0.2))
    fail(1, breaker)
    #expect(retry(breaker)?.cause == .open)
    let totals = breaker.snapshot().totals
    #expect(totals.retries == 0 && totals.overBudget == 0)
  }

  @Test func `a retry that is refused gives back its room and the lease of a probe`() throws {
    let policy = BreakerPolicy(
      maxFailures: 1, openFor: .seconds(1), maxConcurrent: 1, retryBudget: 0.2)
    let breaker = try breaker(policy)
    for _ in 0..<10 {
      #expect(retry(breaker) == nil)
      try breaker.reset()
    }
    #expect(retry(breaker)?.cause == .retryBudget)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
    try breaker.run {}
    #expect(breaker.state == .closed)
  }

  @Test func `the state and a hold come first, also where the budget is used up`() throws {
    let breaker = try breaker()
    #expect(retries(breaker) == 10)
    let before = breaker.snapshot().totals
    try breaker.trip()
    #expect(retry(breaker)?.cause == .open)
    try breaker.reset()
    try breaker.hold(for: .seconds(5))
    #expect(retry(breaker)?.cause == .held)
    let totals = breaker.snapshot().totals
    #expect(totals.retries == before.retries && totals.overBudget == before.overBudget)
  }

  @Test func `a retry that is refused as a probe is no attempt, and leaves the probe to others`()
    throws
  {
    let breaker = try breaker(
      BreakerPolicy(maxFailures: 100, openFor: .microseconds(1), retryBudget: 0.2))
    #expect(retries(breaker) == 10)
    try breaker.trip()
    host.clock.advance(by: .microseconds(1))
    #expect(retry(breaker)?.cause == .retryBudget)
    #expect(breaker.snapshot().retries?.firstAttempts == 0)
    try breaker.run {}
    #expect(breaker.state == .closed)
  }

  @Test func `calls whose outcome another process reports are first attempts`() throws {
    let store = host.store()
    let breaker = try store.breaker("search", policy: Self.policy())
    for number in 0..<30 {
      let token = try breaker.acquireToken()
      try store.report(token, number < 10 ? .failure() : number < 20 ? .ignored : .success)
    }
    #expect(breaker.snapshot().retries?.firstAttempts == 30)
  }

  @Test(arguments: [true, false])
  func `a process that goes on alone keeps to a budget of its own`(hasUsedStore: Bool) throws {
    let process = host.process()
    let breaker = try process.store().breaker("search", policy: Self.policy())
    if hasUsedStore { try breaker.run {} }
    host.failStore(with: .inputOutput)
    fail(100, breaker)
    for _ in 0..<100 { try breaker.run {} }
    #expect(retries(breaker) == 40)
    #expect(retry(breaker)?.cause == .retryBudget)
  }

  @Test func `a breaker that only observes sends all retries, and counts those it would not`()
    throws
  {
    let breaker = try breaker()
    try breaker.force(.observe)
    for _ in 0..<12 { #expect(retry(breaker) == nil) }
    let totals = breaker.snapshot().totals
    #expect(totals.wouldReject == 2 && totals.overBudget == 0)
  }

  @Test func `without a budget any number is sent again`() throws {
    let breaker = try breaker(BreakerPolicy(maxFailures: 1_000_000))
    for _ in 0..<100 { #expect(retry(breaker) == nil) }
    #expect(breaker.snapshot().retries == nil && breaker.snapshot().totals.retries == 0)
  }

  @Test func `a call that comes once a minute can be sent again`() throws {
    let breaker = try breaker()
    for _ in 0..<5 {
      fail(1, breaker)
      #expect(retry(breaker) == nil)
      host.clock.advance(by: .seconds(60))
    }
  }

  @Test func `processes that all fail at once send a fifth of their calls again`() throws {
    let stage = try Stage()
    // Each process has a store of its own; all of them use the same files.
    let breakers = try (0..<4).map { _ in
      try stage.sharedStore().breaker("search", policy: Self.policy())
    }
    Threads.run(16) { thread in
      let breaker = breakers[thread % 4]
      for _ in 0..<63 {
        try? breaker.run(retry: .fixed(attempts: 2, delay: .zero)) { throw Refused() }
      }
    }
    let totals = breakers[0].snapshot().totals
    #expect(totals.retries + totals.overBudget == 16 * 63)
    #expect(totals.failures == 16 * 63 + totals.retries)
    // The clock of the stage stands still.
    #expect((10...201).contains(totals.retries))
  }
}
