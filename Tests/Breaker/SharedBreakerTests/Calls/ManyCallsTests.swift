import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(60))) struct ManyCallsTests {
  private static let calls = 10_000

  @Test func `ten thousand calls through one breaker of a file are all counted`() async throws {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker("api")
    let sum = try await withThrowingTaskGroup(of: Int.self) { group in
      for number in 0..<Self.calls {
        group.addTask {
          try await breaker.run {
            await Task.yield()
            return number
          }
        }
      }
      return try await group.reduce(0, +)
    }
    #expect(sum == Self.calls * (Self.calls - 1) / 2)
    #expect(breaker.snapshot().totals.successes == Int64(Self.calls))
  }

  @Test
  func `ten thousand calls with timeout and retries keep their outcomes apart`() async throws {
    let host = TestHost()
    let breaker = try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 1_000_000))
    let retry = RetryPolicy.fixed(attempts: 2, delay: .zero)
    let sum = try await withThrowingTaskGroup(of: Int.self) { group in
      for number in 0..<Self.calls {
        group.addTask {
          let tries = Notes<Int>()
          return try await breaker.run(timeout: .seconds(1), retry: retry) {
            await Task.yield()
            tries.note(number)
            if number.isMultiple(of: 10), tries.count == 1 { throw Refused() }
            return number
          }
        }
      }
      return try await group.reduce(0, +)
    }
    #expect(sum == Self.calls * (Self.calls - 1) / 2)
    let totals = breaker.snapshot().totals
    #expect(totals.successes == Int64(Self.calls))
    #expect(totals.failures == Int64(Self.calls) / 10)
    #expect(breaker.state == .closed)
  }

  @Test func `ten thousand calls that all fail open the breaker once`() async throws {
    let host = TestHost()
    let store = host.store()
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 100))
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<Self.calls {
        group.addTask {
          try? await breaker.run(timeout: .seconds(1)) {
            await Task.yield()
            throw Refused()
          }
        }
      }
    }
    #expect(breaker.snapshot().trips == 1)
    #expect(breaker.snapshot().consecutiveFailures == 100)
    #expect(try store.history().map(\.change.wireTo) == ["open"])
  }
}
