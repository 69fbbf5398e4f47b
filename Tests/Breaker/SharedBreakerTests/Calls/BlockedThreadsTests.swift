import Glibc
import SharedBreaker
import SharedBreakerTesting
import Synchronization
import TestShim
import TestSupport
import Testing

/// Jobs in a process of their own, in which code blocks every thread of Swift's pool.
@Suite(.timeLimit(.minutes(60))) struct BlockedThreadsTests {
  @Test func `a job times out, retries and calls back while all Swift threads block`() async {
    await #expect(processExitsWith: .success) {
      ts_limit(600)
      let timeouts = Notes<Int>()
      let retry = RetryPolicy.fixed(attempts: 3, delay: .milliseconds(1))
      let job = BreakerJob(try Self.breaker(), timeout: .milliseconds(1), retry: retry) { _ in }
      job.timedOut = { _ in timeouts.note(1) }
      job.failed = { _, error in exit(timeouts.count == 3 && error is CallTimedOut ? 0 : 1) }
      Blocking.blockAllButThisThread()
      await job.start()
      Blocking.block()
    }
  }

  @Test func `a timeout hook is called while all Swift threads block`() async {
    await #expect(processExitsWith: .success) {
      ts_limit(600)
      let deadline = Notes<@Sendable () -> Void>()
      let timer = StoreTimer { _, body in
        deadline.note(body)
        return {}
      }
      let breaker = try TestHost().store(timer: timer).breaker("api")
      let hooks = Notes<Int>()
      let works = Notes<Int>()
      Task.detached {
        try await breaker.run(timeout: .seconds(1), onTimeout: { hooks.note(1) }) {
          works.note(1)
          Blocking.block()
        }
      }
      while works.count == 0 { sched_yield() }
      Blocking.blockAllButThisThread(alreadyBlocked: works.count)
      for body in deadline.entries { body() }
      exit(hooks.count == 1 ? 0 : 1)
    }
  }

  private static func breaker() throws -> Breaker {
    try TestHost().store(timer: .system).breaker("api", policy: BreakerPolicy(maxFailures: 1_000))
  }
}

/// Blocks threads forever; the process ends by `exit` all the same.
private enum Blocking {
  static let cores = sysconf(Int32(_SC_NPROCESSORS_ONLN))

  static func block() { while true { pause() } }

  /// Starts so many tasks that every other thread of the pool runs one that blocks it.
  static func blockAllButThisThread(alreadyBlocked: Int = 0) {
    let blocked = Notes<Int>()
    for number in 0..<(8 * cores) {
      Task.detached {
        blocked.note(number)
        block()
      }
    }
    while alreadyBlocked + blocked.count < cores - 1 { sched_yield() }
  }
}
