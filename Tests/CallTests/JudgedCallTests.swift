import SharedBreaker
import SharedBreakerTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A call with a classifier` {
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

  @Test func `takes a value for a failure, and returns it all the same`() async throws {
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

  @Test func `opens at once for a permanent failure, or for the time that a value names`() throws {
    let permanent = try breaker()
    _ = try permanent.run(classify: Self.http) { Response(status: 401) }
    #expect(permanent.state == .open)
    let other = try TestHost().store().breaker("api")
    _ = try other.run(classify: Self.http) { Response(status: 429, retryAfter: .seconds(90)) }
    #expect(other.snapshot().retryAfter == .seconds(90))
  }

  @Test func `gives neither credit nor blame for what is ignored`() throws {
    let breaker = try breaker()
    for _ in 0..<2 { _ = try breaker.run(classify: Self.http) { Response(status: 500) } }
    _ = try breaker.run(classify: Self.http) { Response(status: 404) }
    #expect(throws: Refused(code: 400)) {
      try breaker.run(classify: Self.http) { throw Refused(code: 400) }
    }
    #expect(breaker.snapshot().consecutiveFailures == 2)
    #expect(breaker.snapshot().totals.ignored == 2)
  }

  @Test func `tries again after a value that is a failure, and gives the last one`() async throws {
    let breaker = try breaker(maxFailures: 9)
    let statuses = Journal<Int>()
    let retry = RetryPolicy.fixed(attempts: 3, delay: .zero)
    let response = try await breaker.run(retry: retry, classify: Self.http) {
      await Task.yield()
      statuses.note(500 + statuses.count)
      return Response(status: 500 + statuses.count)
    }
    #expect(response == Response(status: 503))
  }

  @Test func `can be said by the value or by the error alone`() throws {
    let breaker = try breaker(maxFailures: 1)
    #expect(throws: Refused.self) {
      try breaker.run(classify: .errors { _ in .ignored }) { throw Refused() }
    }
    #expect(try breaker.run(classify: .values { $0 < 0 ? .failure() : .success }) { 1 } == 1)
    #expect(breaker.state == .closed)
    #expect(try breaker.run(classify: .values { $0 < 0 ? .failure() : .success }) { -1 } == -1)
    #expect(breaker.state == .open)
  }

  @Test func `counts a call that took too long as slow`() async throws {
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

@Suite(.timeLimit(.minutes(10))) struct `A call with a fallback` {
  let host = TestHost()

  private func breaker() throws -> Breaker {
    try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 3, openFor: .seconds(9)))
  }

  @Test func `falls back when it is rejected, and knows when to come back`() async throws {
    let breaker = try breaker()
    try breaker.trip()
    let later = try await breaker.run {
      "fresh"
    } onRejection: { error in
      await Task.yield()
      return "cached, fresh in \(error.retryAfter ?? .zero)"
    }
    #expect(later == "cached, fresh in 9.0 seconds")
    let state = try breaker.run {
      BreakerState.closed
    } onRejection: { error in
      error.rejection?.state ?? .halfOpen
    }
    #expect(state == .open)
  }

  @Test func `throws its failures unless there is a fallback for them as well`() async throws {
    let breaker = try breaker()
    #expect(throws: Refused.self) {
      try breaker.run {
        throw Refused()
      } onRejection: { _ in
        "cached"
      }
    }
    let answer = try await breaker.run {
      await Task.yield()
      throw Refused(code: 502)
    } onFailure: {
      "not \(($0 as? Refused)?.code ?? 0)"
    }
    #expect(answer == "not 502")
    let apology = try breaker.run {
      throw Refused()
    } onFailure: { _ in
      "sorry"
    }
    #expect(apology == "sorry")
    #expect(breaker.snapshot().totals.failures == 3)
  }

  @Test func `falls back after the last attempt only, also if the breaker opened`() async throws {
    let breaker = try breaker()
    let answers = Journal<Int>()
    let answer = try await breaker.run(retry: .fixed(attempts: 9, delay: .zero)) {
      await Task.yield()
      answers.note(1)
      throw Refused()
    } onRejection: { _ in
      "rejected"
    } onFailure: { _ in
      "failed"
    }
    #expect(answer == "failed")
    #expect(answers.count == 3)
    #expect(breaker.state == .open)
  }

  @Test func `throws what is ignored, for it is not the resource's failure`() async throws {
    let breaker = try breaker()
    await #expect(throws: CancellationError.self) {
      try await breaker.run {
        await Task.yield()
        throw CancellationError()
      } onFailure: { _ in
      }
    }
    #expect(throws: Refused.self) {
      try breaker.run(classify: .errors { _ in .ignored }) {
        throw Refused()
      } onFailure: { _ in
      }
    }
  }

  @Test func `throws the error of a store that is to throw, for nobody meant that`() async throws {
    let options = StoreOptions(onStoreFailure: .throw)
    let store = SharedStore(path: "/proc/no-such-folder/breakers.db", options: options)
    let breaker = try store.breaker("api")
    func isStoreError(_ error: any Error) -> Bool {
      if case BreakerError.store = error { true } else { false }
    }
    #expect(
      performing: {
        try breaker.run(retry: .fixed(attempts: 3, delay: .zero)) {
          Issue.record("the work was run")
        } onRejection: { _ in
          Issue.record("nobody was rejected")
        }
      }, throws: isStoreError)
    await #expect(
      performing: {
        try await breaker.run(timeout: .seconds(1)) {
          _ = Issue.record("the work was run")
        } onFailure: { _ in
          Issue.record("nothing was tried")
        }
      }, throws: isStoreError)
  }

  @Test func `throws what its fallback throws`() throws {
    let breaker = try breaker()
    #expect(throws: Refused(code: 2)) {
      try breaker.run {
        throw Refused(code: 1)
      } onFailure: { _ in
        throw Refused(code: 2)
      }
    }
    #expect(breaker.snapshot().lastError == "Refused(code: 1)")
  }
}
