@_spi(Command) import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(60))) struct RetryTests {
  let host = TestHost()

  private func breaker(maxFailures: Int = 100) throws -> Breaker {
    try host.store().breaker("api", policy: BreakerPolicy(maxFailures: maxFailures))
  }

  /// Waits for a sleeper of each of these times in turn and advances the clock by it.
  private func waking(_ waits: Duration...) -> Task<Void, any Error> {
    Task { [clock = host.clock] in
      for wait in waits {
        try await clock.untilSomebodySleeps(for: wait)
        clock.advance(by: wait)
      }
    }
  }

  @Test func `a call waits between its attempts and returns the first good answer`() async throws {
    let breaker = try breaker()
    let runs = Notes<Duration>()
    let waking = waking(.seconds(1), .seconds(2))
    let answer = try await breaker.run(retry: .exponential(attempts: 3, delay: .seconds(1))) {
      await Task.yield()
      runs.note(host.clock.now.offset)
      if runs.count < 3 { throw Refused() }
      return 42
    }
    try await waking.value
    #expect(answer == 42)
    #expect(runs.entries == [.zero, .seconds(1), .seconds(3)])
    #expect(breaker.snapshot().totals.failures == 2)
    #expect(breaker.snapshot().totals.successes == 1)
  }

  @Test func `a synchronous call blocks its thread between its attempts`() async throws {
    let breaker = try breaker()
    let runs = Notes<Duration>()
    let threads = Threads()
    threads.start { [clock = host.clock] in
      let answer = try? breaker.run(retry: .powers(of: 2, attempts: 3)) {
        runs.note(clock.now.offset)
        if runs.count < 3 { throw Refused() }
        return 42
      }
      #expect(answer == 42)
    }
    try await waking(.seconds(2), .seconds(4)).value
    threads.join()
    #expect(runs.entries == [.zero, .seconds(2), .seconds(6)])
  }

  @Test func `the second call of three attempts opens a breaker after five failures`() throws {
    let breaker = try breaker(maxFailures: 5)
    let runs = Notes<Int>()
    for _ in 0..<2 {
      #expect(breaker.state == .closed)
      #expect(throws: Refused.self) {
        try breaker.run(retry: .fixed(attempts: 3, delay: .zero)) {
          runs.note(1)
          throw Refused()
        }
      }
    }
    #expect(runs.count == 5)
    #expect(breaker.state == .open)
  }

  @Test func `a call that succeeds at its third attempt is two failures of three calls`() throws {
    let policy = BreakerPolicy(failureRate: 0.9, window: .seconds(60), minCalls: 3)
    let breaker = try host.store().breaker("api", policy: policy)
    let runs = Notes<Int>()
    try breaker.run(retry: .fixed(attempts: 3, delay: .zero)) {
      runs.note(1)
      if runs.count < 3 { throw Refused() }
    }
    #expect(breaker.snapshot().failureRate == 2.0 / 3)
  }

  @Test func `a call throws the last error when its attempts are used up`() async throws {
    let breaker = try breaker()
    let runs = Notes<Int>()
    await #expect(throws: Refused(code: 2)) {
      try await breaker.run(retry: .fixed(attempts: 2, delay: .zero)) {
        await Task.yield()
        runs.note(1)
        throw Refused(code: runs.count)
      }
    }
    #expect(throws: Refused(code: 4)) {
      try breaker.run(retry: .fixed(attempts: 2, delay: .zero)) {
        runs.note(1)
        throw Refused(code: runs.count)
      }
    }
    #expect(breaker.snapshot().consecutiveFailures == 4)
  }

  @Test func `a rejection is never retried`() async throws {
    let breaker = try breaker()
    try breaker.trip()
    let retry = RetryPolicy.fixed(attempts: .max, delay: .zero, retryIf: { _ in true })
    await #expect(throws: BreakerError.self) {
      try await breaker.run(retry: retry) { await Task.yield() }
    }
    #expect(throws: BreakerError.self) { try breaker.run(retry: retry) {} }
    #expect(breaker.snapshot().totals.rejections == 2)
  }

  @Test func `a call stops at the error that opens the breaker and throws it`() async throws {
    let breaker = try breaker(maxFailures: 3)
    let runs = Notes<Int>()
    await #expect(throws: Refused(code: 3)) {
      try await breaker.run(retry: .fixed(attempts: .max, delay: .zero)) {
        await Task.yield()
        runs.note(1)
        throw Refused(code: runs.count)
      }
    }
    #expect(breaker.state == .open)
    #expect(breaker.snapshot().totals.rejections == 0)
  }

  @Test func `a call that waits to retry stops when another trips the breaker`() async throws {
    let breaker = try breaker()
    let other = try host.store().breaker("api")
    let call = Task {
      try await breaker.run(retry: .fixed(attempts: 5, delay: .seconds(1))) {
        await Task.yield()
        throw Refused(code: 7)
      }
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(1))
    try other.trip()
    host.clock.advance(by: .seconds(1))
    await #expect(throws: Refused(code: 7)) { try await call.value }
    #expect(breaker.snapshot().totals.failures == 1)
  }

  @Test func `each attempt of a call asks for its own permit and can be a probe`() async throws {
    let policy = BreakerPolicy(maxFailures: 100, openFor: .seconds(1), successesToClose: 3)
    let breaker = try host.store().breaker("api", policy: policy)
    try breaker.trip()
    host.clock.advance(by: .seconds(1))
    let values = Notes<Int>()
    _ = try await breaker.run(
      retry: .fixed(attempts: 3, delay: .zero, retryIf: { _ in true }),
      outcome: { _ in .ignored }
    ) {
      await Task.yield()
      values.note(1)
      #expect(throws: BreakerError.self) { try breaker.run {} }
      if values.count < 3 { throw Refused() }
    }
    #expect(values.count == 3)
    #expect(breaker.state == .halfOpen)
    #expect(breaker.snapshot().totals.ignored == 2)
  }

  @Test func `a call retries only the errors that its retry policy accepts`() async throws {
    let breaker = try breaker()
    let retry = RetryPolicy.fixed(
      attempts: 3, delay: .zero, retryIf: { ($0 as? Refused)?.code == 503 })
    for (code, attempts) in [(503, 3), (404, 1)] {
      let runs = Notes<Int>()
      await #expect(throws: Refused(code: code)) {
        try await breaker.run(retry: retry) {
          await Task.yield()
          runs.note(1)
          throw Refused(code: code)
        }
      }
      #expect(runs.count == attempts)
    }
  }

  @Test(arguments: [
    (CallOutcome.ignored, 1), (.permanentFailure(), 1), (.failure(opensFor: .seconds(9)), 1),
    (.failure(), 3),
  ])
  func `a call retries only what the classifier calls an ordinary failure`(
    outcome: CallOutcome, attempts: Int
  ) async throws {
    let breaker = try breaker()
    let runs = Notes<Int>()
    let retry = RetryPolicy.fixed(attempts: 3, delay: .zero)
    await #expect(throws: Refused.self) {
      try await breaker.run(retry: retry, outcome: { _ in outcome }) {
        await Task.yield()
        runs.note(1)
        throw Refused()
      }
    }
    #expect(runs.count == attempts)
  }

  @Test func `a permanent failure is not retried even if the breaker is forced closed`() throws {
    let breaker = try breaker()
    try breaker.force(.forcedClosed)
    let runs = Notes<Int>()
    #expect(throws: Refused.self) {
      try breaker.run(
        retry: .fixed(attempts: 3, delay: .zero, retryIf: { _ in true }),
        outcome: { _ in .permanentFailure() }
      ) {
        runs.note(1)
        throw Refused()
      }
    }
    #expect(runs.count == 1)
  }

  @Test
  func `a call waits as long as the error asks and gives up if that is too long`() async throws {
    let breaker = try breaker()
    let retry = RetryPolicy.exponential(
      attempts: 4, delay: .seconds(1), longest: .seconds(30),
      retryAfter: { ($0 as? Refused).flatMap { $0.code > 0 ? .seconds($0.code) : nil } })
    let runs = Notes<Duration>()
    let waking = waking(.seconds(20), .seconds(2))
    await #expect(throws: Refused(code: 31)) {
      try await breaker.run(retry: retry) {
        await Task.yield()
        runs.note(host.clock.now.offset)
        throw Refused(code: [20, 0, 31][runs.count - 1])
      }
    }
    try await waking.value
    #expect(runs.entries == [.zero, .seconds(20), .seconds(22)])
  }

  @Test func `a call that waits to retry ends at once when its caller is cancelled`() async throws {
    let breaker = try breaker()
    let call = Task {
      try await breaker.run(retry: .fixed(attempts: 2, delay: .seconds(1))) {
        await Task.yield()
        throw Refused()
      }
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(1))
    call.cancel()
    await #expect(throws: CancellationError.self) { try await call.value }
    #expect(breaker.snapshot().totals.failures == 1)
  }

  @Test func `a retry that is cancelled while it waits for its turn throws the cancellation`()
    async throws
  {
    let policy = BreakerPolicy(maxFailures: 100, maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    let call = Task {
      let retry = RetryPolicy.fixed(attempts: 2, delay: .seconds(1))
      try await breaker.run(retry: retry) { () async throws -> Void in
        throw Refused()
      } onFailure: { _ in
        Issue.record("the fallback ran")
      }
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(1))
    let permit = try await breaker.acquire().shared()
    host.clock.advance(by: .seconds(1))
    await until { breaker.snapshot().limit?.waiters.count == 1 }
    call.cancel()
    await #expect(throws: CancellationError.self) { try await call.value }
    permit.succeed()
    #expect(breaker.snapshot().totals.failures == 1)
  }

  @Test(arguments: [false, true])
  func `a retry that the store keeps from being made throws the store's error, without a fallback`(
    isTask: Bool
  ) async throws {
    let breaker = try host.store().breaker("api", onStoreFailure: .throw)
    let retry = RetryPolicy.fixed(attempts: 2, delay: .seconds(1))
    let errors = Notes<any Error>()
    let threads = Threads()
    let task = Task {
      guard isTask else { return }
      do {
        try await breaker.run(retry: retry) { () async throws -> Void in
          throw Refused()
        } onFailure: { _ in
          Issue.record("the fallback ran")
        }
      } catch {
        errors.note(error)
      }
    }
    if !isTask {
      threads.start {
        do {
          try breaker.run(retry: retry) { () throws -> Void in
            throw Refused()
          } onFailure: { _ in
            Issue.record("the fallback ran")
          }
        } catch {
          errors.note(error)
        }
      }
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(1))
    // A write of another process has to be read.
    try await host.process().store().breaker("other").run {}
    host.failStore()
    host.clock.advance(by: .seconds(1))
    await task.value
    threads.join()
    guard case BreakerError.store? = errors.entries.first else {
      Issue.record("\(errors.entries)")
      return
    }
  }

  private static let httpStatus = Classifier<Int>(values: {
    $0 == 429 ? .hold(for: .seconds(12), reason: "HTTP 429") : .success
  })

  @Test func `a call that was told to wait is made again at the end of the hold`() async throws {
    let breaker = try breaker()
    let runs = Notes<Duration>()
    let waking = waking(.seconds(12))
    let status = try await breaker.run(
      retry: .fixed(attempts: 3, delay: .seconds(1)), classify: Self.httpStatus
    ) {
      await Task.yield()
      runs.note(host.clock.now.offset)
      return runs.count == 1 ? 429 : 200
    }
    try await waking.value
    #expect(status == 200)
    #expect(runs.entries == [.zero, .seconds(12)])
    #expect(breaker.snapshot().totals.failures == 0)
  }

  @Test func `retries of a hold are spread by the jitter of the policy, below the longest wait`()
    throws
  {
    let breaker = try host.limited(BreakerPolicy(jitter: 0.5))
    try breaker.hold(for: .seconds(55))
    let rejection = try #require(breaker.snapshot().rejection)
    let retry = RetryPolicy.fixed(attempts: 2, delay: .zero)
    let waits = (0..<50).compactMap { _ in breaker.spread(rejection, for: retry).retryAfter }
    #expect(waits.allSatisfy { $0 >= .seconds(55) && $0 < .seconds(58) }, "\(waits)")
    #expect(Set(waits).count > 40)
    let hasty = RetryPolicy.exponential(attempts: 2, delay: .zero, longest: .seconds(10))
    #expect(breaker.spread(rejection, for: hasty).retryAfter == rejection.retryAfter)
  }

  @Test func `a call does not wait for a hold that is longer than its longest wait`() async throws {
    let breaker = try breaker()
    let runs = Notes<Int>()
    let retry = RetryPolicy.exponential(
      attempts: 3, delay: .seconds(1), longest: .seconds(11))
    let status = try await breaker.run(retry: retry, classify: Self.httpStatus) {
      runs.note(1)
      return 429
    }
    #expect(status == 429)
    #expect(runs.count == 1)
  }

  @Test func `a call that waits for the end of a hold waits on if it is prolonged`() async throws {
    let breaker = try breaker()
    let runs = Notes<Duration>()
    let threads = Threads()
    threads.start { [clock = host.clock] in
      let retry = RetryPolicy.fixed(attempts: 2, delay: .seconds(1))
      let status = try? breaker.run(retry: retry, classify: Self.httpStatus) {
        runs.note(clock.now.offset)
        return runs.count == 1 ? 429 : 200
      }
      #expect(status == 200)
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(12))
    try host.process().store().breaker("api").hold(for: .seconds(20))
    try await waking(.seconds(12), .seconds(8)).value
    threads.join()
    #expect(runs.entries == [.zero, .seconds(20)])
    #expect(breaker.snapshot().hold == nil)
  }

  @Test(arguments: [60, 13])
  func `a call waits while another one goes first, if it may wait for that long`(
    longest: Int
  ) async throws {
    let breaker = try breaker()
    let runs = Notes<Duration>()
    let call = Task { [clock = host.clock] in
      let retry = RetryPolicy.exponential(
        attempts: 2, delay: .seconds(13), longest: .seconds(longest))
      return try await breaker.run(retry: retry, classify: Self.httpStatus) {
        await Task.yield()
        runs.note(clock.now.offset)
        return runs.count == 1 ? 429 : 200
      }
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(13))
    host.clock.advance(by: .seconds(12))
    let first = try await host.process().store().breaker("api").acquire().shared()
    host.clock.advance(by: .seconds(1))
    if longest == 13 {
      #expect(try await call.value == 429)
      first.succeed()
    } else {
      try await host.clock.untilSomebodySleeps(for: .seconds(1))
      first.succeed()
      host.clock.advance(by: .seconds(1))
      #expect(try await call.value == 200)
    }
    #expect(runs.entries == (longest == 13 ? [.zero] : [.zero, .seconds(14)]))
  }

  @Test func `a call with retries stays on the actor of its caller`() async throws {
    let counter = try Counter(breaker())
    try await counter.countWithRetries()
    #expect(await counter.count == 3)
  }
}

/// An actor whose own state the work uses without `await`.
private actor Counter {
  let breaker: Breaker
  var count = 0

  init(_ breaker: Breaker) { self.breaker = breaker }

  func countWithRetries() async throws {
    try await breaker.run(retry: .fixed(attempts: 3, delay: .zero)) {
      await Task.yield()
      count += 1
      if count < 3 { throw Refused() }
    }
  }
}
