import SharedBreaker
import SharedBreakerTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct FallbackTests {
  let host = TestHost()

  private func breaker() throws -> Breaker {
    try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 3, openFor: .seconds(9)))
  }

  @Test func `a rejected call falls back and learns when to try again`() async throws {
    let breaker = try breaker()
    try breaker.trip()
    let later = try await breaker.run {
      "fresh"
    } onRejection: { rejection in
      await Task.yield()
      return "cached, fresh in \(rejection.retryAfter ?? .zero)"
    }
    #expect(later == "cached, fresh in 9.0 seconds")
    let state = try await breaker.run {
      BreakerState.closed
    } onRejection: { rejection in
      rejection.state
    }
    #expect(state == .open)
  }

  @Test func `callers of every process are told why a breaker was tripped by hand`() async throws {
    let breaker = try breaker()
    try breaker.trip(reason: "new disks")
    let told = Rejection(
      state: .open, mode: .automatic, retryAfter: .seconds(9), reason: "new disks")
    for breaker in [breaker, try self.breaker()] {
      for _ in 0..<2 {
        #expect(throws: BreakerError.rejected(name: "api", told)) { try breaker.run { 1 } }
      }
    }
    #expect(breaker.snapshot().openReason == "new disks")
    try breaker.trip()
    #expect(
      throws: BreakerError.rejected(
        name: "api",
        Rejection(
          state: .open, mode: .automatic, retryAfter: .seconds(9)))
    ) { try breaker.run { 1 } }
  }

  @Test func `a rejection for which there is no fallback is thrown with the name of the breaker`()
    async throws
  {
    let breaker = try breaker()
    try breaker.trip()
    let rejection = Rejection(state: .open, mode: .automatic, retryAfter: .seconds(9))
    let expected = BreakerError.rejected(name: "api", rejection)
    #expect(throws: expected) { try breaker.run(classify: .usual) { 1 } }
    await #expect(throws: expected) { try await breaker.run(retry: .never) { 1 } }
    await #expect(throws: expected) { try await breaker.run(timeout: .seconds(1)) { 1 } }
    // A fallback may throw something else.
    await #expect(throws: Refused.self) {
      try await breaker.run {
        1
      } onRejection: { _ in
        throw Refused()
      }
    }
  }

  @Test func `a failure is thrown unless there is a fallback for failures too`() async throws {
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
    let apology = try await breaker.run {
      throw Refused()
    } onFailure: { _ in
      "sorry"
    }
    #expect(apology == "sorry")
    #expect(breaker.snapshot().totals.failures == 3)
  }

  @Test
  func `a call falls back after its last attempt only, even if the breaker opens`() async throws {
    let breaker = try breaker()
    let answers = Notes<Int>()
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

  @Test func `an ignored error is thrown and reaches no fallback`() async throws {
    let breaker = try breaker()
    await #expect(throws: CancellationError.self) {
      try await breaker.run {
        await Task.yield()
        throw CancellationError()
      } onFailure: { _ in
      }
    }
    #expect(throws: Refused.self) {
      try breaker.run(outcome: { _ in .ignored }) {
        throw Refused()
      } onFailure: { _ in
      }
    }
  }

  @Test func `the error of a store that is set to throw reaches no fallback`() async throws {
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
          Issue.record("no call was rejected")
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

  private static let negative = Classifier<Int>.values { value in
    value < 0 ? .failure(error: "negative") : value == 0 ? .ignored : .success
  }

  @Test func `a value that is a failure reaches its fallback after the last attempt`() async throws
  {
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 99))
    let retry = RetryPolicy.fixed(attempts: 2, delay: .zero)
    let works = Notes<Int>()
    func runOutsideOfTask() throws -> Int {
      try breaker.run(retry: retry, classify: Self.negative) {
        works.note(1)
        return -works.count
      } onFailedValue: { value in
        value * 100
      }
    }
    #expect(try runOutsideOfTask() == -200)
    let async = try await breaker.run(retry: retry, classify: Self.negative) {
      await Task.yield()
      works.note(1)
      return -works.count
    } onFailedValue: { value in
      await Task.yield()
      return value * 100
    }
    #expect(async == -400)
    let timed = try await breaker.run(timeout: .seconds(9), retry: retry, classify: Self.negative) {
      works.note(1)
      return -works.count
    } onFailedValue: { value in
      value * 100
    }
    #expect(timed == -600)
    #expect(breaker.snapshot().totals.failures == 6)
    #expect(breaker.snapshot().lastError == "negative")
  }

  @Test func `a fallback for failed values runs for no other value and for no error`() throws {
    let breaker = try breaker()
    for value in [0, 1] {
      let answer = try breaker.run(classify: Self.negative) {
        value
      } onFailedValue: { _ in
        -9
      }
      #expect(answer == value)
    }
    #expect(throws: Refused.self) {
      try breaker.run(classify: Self.negative) {
        throw Refused()
      } onFailedValue: { _ in
        -9
      }
    }
    try breaker.trip()
    #expect(throws: BreakerError.self) {
      try breaker.run(classify: Self.negative) {
        -1
      } onFailedValue: { _ in
        -9
      }
    }
  }

  @Test func `a call throws what its fallback for a failed value throws`() throws {
    let breaker = try breaker()
    #expect(throws: Refused(code: 7)) {
      try breaker.run(classify: Self.negative) {
        -1
      } onFailedValue: { _ in
        throw Refused(code: 7)
      }
    }
    #expect(breaker.snapshot().totals.failures == 1)
  }

  @Test func `a call throws what its fallback throws`() throws {
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
