import SharedBreaker
import SharedBreakerTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct JudgedCallTests {
  struct Response: Sendable, Equatable {
    var status: Int
    var retryAfter: Duration?
  }

  let host = TestHost()

  private static let http = Classifier<Response>(
    errors: { ($0 as? Refused)?.code == 400 ? .ignored : Breaker.usualOutcome(of: $0) },
    values: {
      switch $0.status {
      case 429: .failure(opensFor: $0.retryAfter ?? .seconds(1), error: "HTTP 429")
      case 401: .permanentFailure(error: "HTTP 401")
      case 500...: .failure(error: "HTTP \($0.status)")
      case 404: .ignored
      default: .success
      }
    })

  private func breaker(maxFailures: Int = 3) throws -> Breaker {
    try host.store().breaker("api", policy: BreakerPolicy(maxFailures: maxFailures))
  }

  @Test func `a value can count as a failure and is still returned`() async throws {
    let breaker = try breaker()
    for _ in 0..<3 {
      let response = try await breaker.run(classify: Self.http) {
        await Task.yield()
        return Response(status: 503)
      }
      #expect(response.status == 503)
    }
    #expect(breaker.state == .open)
    #expect(breaker.snapshot().lastError == "HTTP 503")
  }

  @Test func `a permanent failure or one with an open time opens the breaker at once`() throws {
    let permanent = try breaker()
    _ = try permanent.run(classify: Self.http) { Response(status: 401) }
    #expect(permanent.state == .open)
    let other = try TestHost().store().breaker("api")
    _ = try other.run(classify: Self.http) { Response(status: 429, retryAfter: .seconds(90)) }
    #expect(other.snapshot().retryAfter == .seconds(90))
  }

  @Test func `an ignored call counts neither as a success nor as a failure`() throws {
    let breaker = try breaker()
    for _ in 0..<2 { _ = try breaker.run(classify: Self.http) { Response(status: 500) } }
    _ = try breaker.run(classify: Self.http) { Response(status: 404) }
    #expect(throws: Refused(code: 400)) {
      try breaker.run(classify: Self.http) { throw Refused(code: 400) }
    }
    #expect(breaker.snapshot().consecutiveFailures == 2)
    #expect(breaker.snapshot().totals.ignored == 2)
  }

  @Test func `a call retries a value that is a failure and returns the last one`() async throws {
    let breaker = try breaker(maxFailures: 9)
    let statuses = Notes<Int>()
    let retry = RetryPolicy.fixed(attempts: 3, delay: .zero)
    let response = try await breaker.run(retry: retry, classify: Self.http) {
      await Task.yield()
      statuses.note(500 + statuses.count)
      return Response(status: 500 + statuses.count)
    }
    #expect(response == Response(status: 503))
  }

  @Test func `a classifier can judge only values or only errors`() throws {
    let breaker = try breaker(maxFailures: 1)
    #expect(throws: Refused.self) {
      try breaker.run(outcome: { _ in .ignored }) { throw Refused() }
    }
    #expect(try breaker.run(classify: .values { $0 < 0 ? .failure() : .success }) { 1 } == 1)
    #expect(breaker.state == .closed)
    #expect(try breaker.run(classify: .values { $0 < 0 ? .failure() : .success }) { -1 } == -1)
    #expect(breaker.state == .open)
  }

  @Test func `calls of every result type and jobs share one judge of errors`() async throws {
    let breaker = try breaker(maxFailures: 9)
    let judge: ErrorJudge = { ($0 as? Refused)?.code == 400 ? .ignored : .failure() }
    @Sendable func refuse<Value>(as: Value.Type = Value.self) throws -> Value {
      throw Refused(code: 400)
    }
    #expect(throws: Refused.self) { try breaker.run(outcome: judge) { try refuse(as: Int.self) } }
    #expect(throws: Refused.self) {
      try breaker.run(outcome: judge) { try refuse(as: String.self) }
    }
    await #expect(throws: Refused.self) {
      try await breaker.run(timeout: .seconds(9), outcome: judge) {
        try refuse(as: Response.self)
      }
    }
    let both = Classifier<Response>(errors: judge, values: { _ in .success })
    #expect(throws: Refused.self) { try breaker.run(classify: both) { try refuse() } }
    await BreakerJob(breaker, outcome: judge) { $0.failure(Refused(code: 400)) }.start()
    #expect(breaker.snapshot().totals.ignored == 5)
    await BreakerJob(breaker, outcome: judge) { $0.failure(Refused(code: 500)) }.start()
    #expect(breaker.snapshot().totals.failures == 1)
  }

  @Test func `a call that takes too long counts as slow`() async throws {
    let policy = BreakerPolicy(slowRate: 1.0, slowAfter: .seconds(2), last: 10, minCalls: 2)
    let breaker = try host.store().breaker("api", policy: policy)
    for _ in 0..<2 {
      try await breaker.run(retry: .never) {
        await Task.yield()
        host.clock.advance(by: .seconds(2))
      }
    }
    #expect(breaker.state == .open)
    #expect(breaker.snapshot().totals.slow == 2)
  }
}
