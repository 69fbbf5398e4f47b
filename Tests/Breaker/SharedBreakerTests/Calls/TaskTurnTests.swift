import Glibc
import SharedBreaker
import SharedBreakerTesting
import TestShim
import TestSupport
import Testing

/// Tasks whose work is synchronous, and which wait for their turn while Swift's threads are few.
@Suite(.timeLimit(.minutes(60))) struct TaskTurnTests {
  @Test func `tasks with synchronous work wait without a thread, so those ahead of them can go on`()
    async
  {
    await #expect(processExitsWith: .success) {
      ts_limit(600)
      let directory = try TemporaryDirectory()
      let store = SharedStore(path: directory.store)
      let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
      let areAllServed = try await areServed(by: store.breaker("gpu", policy: policy))
      #expect(areAllServed)
      #expect(!directory.path.isEmpty)
    }
  }

  @Test func `a task that is cancelled before its synchronous work begins leaves, and ran nothing`()
    async
  {
    await #expect(processExitsWith: .success) {
      ts_limit(600)
      let policy = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))
      let breaker = try TestHost().store().breaker("gpu", policy: policy)
      let permit = try await breaker.acquire()
      let begun = Notes<Int>()
      let tasks = (0..<4).map { way in
        Task { try await enter(breaker, way) { begun.note(way) } }
      }
      while breaker.snapshot().limit?.waiters.count != tasks.count { await Task.yield() }
      var cancellations = 0
      for task in tasks {
        task.cancel()
        do { try await task.value } catch is CancellationError { cancellations += 1 }
      }
      permit.succeed()
      let state = breaker.snapshot()
      let isClean = state.limit?.unitsInUse == 0 && state.totals.failures == 0
      #expect(cancellations == tasks.count && begun.count == 0 && isClean)
    }
  }
}

/// Has many more tasks than Swift has threads wait for a call that can only end on one of these threads,
/// and answers whether the breaker has served all of them.
private func areServed(by breaker: Breaker) async throws -> Bool {
  let permit = try await breaker.acquire().shared()
  let callers = 8 * Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
  let begun = Notes<Int>()
  try await withThrowingTaskGroup(of: Void.self) { group in
    for number in 0..<callers {
      group.addTask { try await enter(breaker, number % 4) { begun.note(number) } }
    }
    while breaker.snapshot().limit?.waiters.count != callers { await Task.yield() }
    guard begun.count == 0 else { throw Refused() }
    permit.succeed()
    try await group.waitForAll()
  }
  let (totals, limit) = (breaker.snapshot().totals, breaker.snapshot().limit)
  return begun.count == callers && totals.busy == 0 && totals.rejections == 0
    && limit?.unitsInUse == 0
}

/// Runs synchronous work behind a breaker in one of the ways that a task has; throws if it did not run.
private func enter(_ breaker: Breaker, _ way: Int, _ work: @escaping @Sendable () -> Void)
  async throws
{
  switch way {
  case 0: try await breaker.run { work() }
  case 1: try await breaker.run(classify: .usual) { work() }
  case 2: try await breaker.run(retry: .fixed(attempts: 2, delay: .seconds(1))) { work() }
  default:
    let job = BreakerJob(breaker) { attempt in
      work()
      attempt.success()
    }
    if await !job.start() { throw CancellationError() }
  }
}
