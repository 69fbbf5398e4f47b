import SharedBreaker
import SharedBreakerTesting
import Testing

/// Which of the ways to run work a call in a task means, whose work is synchronous.
@Suite(.timeLimit(.minutes(60))) struct ChosenOverloadTests {
  let waits = Notes<String>()

  private func breaker() throws -> Breaker {
    let timer = StoreTimer(
      sleep: { [waits] _ in waits.note("suspended") }, block: { [waits] _ in waits.note("blocked") }
    )
    return try TestHost().store(timer: timer).breaker("api", policy: BreakerPolicy(maxFailures: 99))
  }

  private let retry = RetryPolicy.fixed(attempts: 2, delay: .seconds(1))

  private func refuse() throws -> Int { throw Refused() }

  @Test func `a call in a task never blocks its thread between its attempts`() async throws {
    let breaker = try breaker()
    await #expect(throws: Refused.self) {
      _ = try await breaker.run(retry: retry) { try refuse() }
    }
    #expect(waits.entries == ["suspended"])
    #expect(
      try await breaker.run(retry: retry) {
        try refuse()
      } onFailure: { _ in
        7
      } == 7)
    #expect(
      try await breaker.run(retry: retry, classify: .usual) {
        let answer = try refuse()
        return answer
      } onRejection: { _ in
        1
      } onFailure: { _ in
        2
      } == 2)
    let task = Task {
      try await breaker.run(retry: retry) {
        try refuse()
      } onFailure: { _ in
        await Task.yield()
        return 3
      }
    }
    #expect(try await task.value == 3)
    #expect(waits.entries == ["suspended", "suspended", "suspended", "suspended"])
  }

  /// Judges the error of `refuse` as nothing that the resource has done.
  private let judge: ErrorJudge = { $0 is Refused ? .ignored : Breaker.usualOutcome(of: $0) }

  private func totals(_ breaker: Breaker) -> [Int64] {
    let totals = breaker.snapshot().totals
    return [totals.successes, totals.failures, totals.ignored]
  }

  @Test func `an error judge fits wherever a classifier does`() async throws {
    let breaker = try breaker()
    #expect(throws: Refused.self) { _ = try breaker.run(outcome: judge) { try refuse() } }
    #expect(throws: Refused.self) {
      _ = try breaker.run(outcome: judge, probeTimeout: .seconds(60)) { try refuse() }
    }
    #expect(throws: Refused.self) {
      _ = try breaker.run(outcome: judge) {
        try refuse()
      } onRejection: { _ in
        1
      }
    }
    await #expect(throws: Refused.self) {
      _ = try await breaker.run(outcome: judge) {
        await Task.yield()
        return try refuse()
      } onRejection: { _ in
        await Task.yield()
        return 1
      }
    }
    await #expect(throws: Refused.self) {
      _ = try await breaker.run(retry: retry, outcome: judge) { try refuse() }
    }
    // A judge takes the place of what the classifier says of errors, and of nothing else.
    let values = Classifier<Int>(
      errors: { _ in .permanentFailure() }, values: { $0 == 1 ? .failure() : .success })
    #expect(throws: Refused.self) {
      _ = try breaker.run(outcome: judge, classify: values) { try refuse() }
    }
    #expect(totals(breaker) == [0, 0, 6])
    #expect(try await breaker.run(outcome: judge, classify: values) { 1 } == 1)
    #expect(try await breaker.run(outcome: judge, classify: values) { 2 } == 2)
    #expect(totals(breaker) == [1, 1, 6])
    #expect(waits.entries == [])
  }

  @Test func `a call with a timeout takes an error judge, which does not judge the timeout`()
    async throws
  {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 99))
    await #expect(throws: Refused.self) {
      _ = try await breaker.run(timeout: .seconds(1), outcome: judge) { throw Refused() }
    }
    #expect(totals(breaker) == [0, 0, 1])
    let late = Task {
      try await breaker.run(timeout: .seconds(1), outcome: { _ in .ignored }) {
        try await host.clock.sleep(for: .seconds(60))
      }
    }
    try await host.clock.untilSomebodySleeps(for: .seconds(1))
    host.clock.advance(by: .seconds(1))
    await #expect(throws: CallTimedOut.self) { try await late.value }
    #expect(totals(breaker) == [0, 1, 1])
  }

  @Test func `a blocking call with retries takes an error judge too`() throws {
    let breaker = try breaker()
    #expect(throws: Refused.self) {
      _ = try breaker.run(retry: retry, outcome: judge) { try refuse() }
    }
    #expect(totals(breaker) == [0, 0, 1])
    #expect(waits.entries == [])
  }

  @discardableResult private func count() -> Int { 1 }

  @discardableResult private func countLater() async -> Int { 1 }

  @Test func `work whose result may be ignored fits wherever nothing is returned`()
    async throws
  {
    let breaker = try breaker()
    let atOnce: () throws -> Void = { try breaker.run { count() } }
    let judged: () throws -> Void = { try breaker.run(outcome: judge) { count() } }
    let inTask: () async throws -> Void = { try await breaker.run { count() } }
    let later: () async throws -> Void = { try await breaker.run { await countLater() } }
    try atOnce()
    try judged()
    try await inTask()
    try await later()
    await #expect(throws: Refused.self) { try await breaker.run { throw Refused() } }
    // With options, a result is ignored only where nothing has to be inferred.
    try await breaker.run(retry: retry) { count() }
    try await breaker.run(retry: retry) { await countLater() }
    // A result that is used is returned.
    let numbers: (Int, Int) = (
      try await breaker.run { count() }, try await breaker.run { await countLater() }
    )
    #expect(numbers == (1, 1))
    #expect(totals(breaker) == [8, 1, 0])
  }

  @Test func `a call outside of a task blocks its thread between its attempts`() throws {
    let breaker = try breaker()
    #expect(
      try breaker.run(retry: retry) {
        try refuse()
      } onFailure: { _ in
        7
      } == 7)
    #expect(waits.entries == ["blocked"])
  }

  @Test func `a call that never retries may be synchronous in a task`() async throws {
    let breaker = try breaker()
    #expect(try await breaker.run { 1 } == 1)
    #expect(try await breaker.run(classify: .values { $0 == 1 ? .failure() : .success }) { 1 } == 1)
    #expect(
      try await breaker.run {
        try refuse()
      } onFailure: { _ in
        7
      } == 7)
    #expect(breaker.snapshot().totals.failures == 2)
    #expect(waits.entries == [])
  }
}
