import SharedBreaker
import SharedBreakerTesting
import Testing

/// Which of the ways to run work a call in a task means, whose work is synchronous.
@Suite(.timeLimit(.minutes(60))) struct ChosenOverloadTests {
  let waits = Journal<String>()

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
    #expect(try breaker.run { 1 } == 1)
    #expect(try breaker.run(classify: .values { $0 == 1 ? .failure() : .success }) { 1 } == 1)
    #expect(
      try breaker.run {
        try refuse()
      } onFailure: { _ in
        7
      } == 7)
    #expect(breaker.snapshot().totals.failures == 2)
    #expect(waits.entries == [])
  }
}
