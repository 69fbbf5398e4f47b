import BreakerStore
import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// Calls that wait for their turn under a limit: threads, and tasks without one.
@Suite(.timeLimit(.minutes(60))) struct LimitQueueTests {
  private let host = TestHost()

  @Test func `a caller waits for its turn, no longer than it may`() throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .milliseconds(1))
    let breaker = try host.limited(policy)
    let permit = try breaker.acquire().shared()
    #expect(breaker.isBusy)
    try breaker.overridePolicy(set: [.queueTimeout: "1h"])
    let threads = Threads()
    let answer = Guarded<Int?>(nil)
    threads.start {
      let value = try? breaker.run { 42 }
      answer.withLock { $0 = value }
    }
    permit.succeed()
    threads.join()
    #expect(answer.withLock { $0 } == 42)
  }

  @Test func `waiting callers are rejected when the breaker opens`() throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queue: 4, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    let permit = try breaker.acquire()
    let threads = Threads()
    let errors = Guarded<[BreakerError]>([])
    for _ in 0..<4 {
      let waiting = try host.process().store().breaker("gpu")
      threads.start {
        do throws(BreakerError) {
          waiting.end(try waiting.acquire())
        } catch {
          errors.withLock { $0.append(error) }
        }
      }
    }
    try host.process().store().breaker("gpu").trip()
    threads.join()
    #expect(errors.withLock { $0 }.count == 4)
    for error in errors.withLock({ $0 }) {
      #expect(error.rejection?.cause == .open)
      #expect(error.rejection?.state == .open)
    }
    permit.ignore()
  }

  @Test func `tasks that wait for their turn occupy none of Swift's threads`() async throws {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    let permit = try await breaker.acquire().shared()
    let begun = Guarded(0)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<1_000 {
        group.addTask {
          try await breaker.run { () async throws in begun.withLock { $0 += 1 } }
        }
      }
      await until { breaker.snapshot().limit?.waiters.count == 1_000 }
      #expect(begun.withLock { $0 } == 0)
      permit.succeed()
      try await group.waitForAll()
    }
    #expect(begun.withLock { $0 } == 1_000)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
  }

  @Test func `tasks that wait for a permit occupy none of Swift's threads, and can be cancelled`()
    async throws
  {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    let permit = try await breaker.acquire().shared()
    let tasks = (0..<40).map { number in
      Task {
        if number % 2 == 0 { return try await breaker.acquire().succeed() }
        switch try await breaker.decide() {
        case .permitted(let permit): return permit.succeed()
        case .rejected: return .refused
        }
      }
    }
    while breaker.snapshot().limit?.waiters.count != 40 { await Task.yield() }
    for task in tasks.prefix(10) {
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    permit.succeed()
    for task in tasks.dropFirst(10) { #expect(try await task.value == .counted) }
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
    // A caller need not wait for a rejection.
    try breaker.trip()
    await #expect(throws: BreakerError.self) { _ = try await breaker.acquire().succeed() }
    guard case .rejected(let rejection) = try await breaker.decide() else {
      Issue.record("permitted")
      return
    }
    #expect(rejection.cause == .open)
  }

  @Test func `a task that is cancelled while it waits leaves at once, and ran nothing`()
    async throws
  {
    let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
    let breaker = try host.limited(policy)
    let permit = try await breaker.acquire()
    let waiting = [
      Task { try await breaker.run { () async throws in Issue.record("it ran") } },
      Task {
        try await breaker.run(retry: .fixed(attempts: 3, delay: .zero)) { () async throws in
          Issue.record("it ran")
        }
      },
    ]
    while breaker.snapshot().limit?.waiters.count != 2 { await Task.yield() }
    for task in waiting {
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    #expect(breaker.snapshot().limit?.waits.abandoned == 2)
    let totals = breaker.snapshot().totals
    #expect(totals.busy == 0 && totals.failures == 0)
    permit.succeed()
  }
}
