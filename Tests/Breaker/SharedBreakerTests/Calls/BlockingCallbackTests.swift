import Glibc
import SharedBreaker
import SharedBreakerTesting
import Synchronization
import TestSupport
import Testing

/// Callbacks and cancellation handlers that block their thread.
@Suite(.timeLimit(.minutes(60))) struct BlockingCallbackTests {
  @Test func `a callback that blocks delays neither other callbacks nor timeouts`() async throws {
    let breaker = try TestHost().store(timer: .system).breaker(
      "api", policy: BreakerPolicy(maxFailures: 1_000))
    let gate = HeldThread()
    let blocked = Notes<Int>()
    let ended = Notes<Int>()
    let blocking = (0..<20).map { number in
      let job = BreakerJob(breaker, timeout: .milliseconds(1)) { _ in }
      job.timedOut = { _ in
        blocked.note(number)
        gate.hold()
      }
      job.failed = { _, _ in ended.note(number) }
      return job
    }
    for job in blocking { await job.start() }
    await until { blocked.count == blocking.count }
    let retry = RetryPolicy.fixed(attempts: 3, delay: .milliseconds(1))
    let other = BreakerJob(breaker, timeout: .milliseconds(1), retry: retry) { _ in }
    let failures = Notes<Int>()
    other.failed = { _, _ in failures.note(1) }
    await other.start()
    await until { failures.count == 1 }
    await #expect(throws: CallTimedOut.self) {
      try await breaker.run(timeout: .milliseconds(1)) {
        try await Task.sleep(for: .seconds(3_600))
      }
    }
    #expect(ended.count == 0)
    gate.letGo()
    await until { ended.count == blocking.count }
  }

  @Test func `a cancellation handler that blocks does not delay its caller`()
    async throws
  {
    let breaker = try TestHost().store(timer: .system).breaker("api")
    let gate = HeldThread()
    let work = HungWork()
    let begun = Notes<Int>()
    // On a busy machine a call may be over before its work has begun.
    while begun.count == 0 {
      await #expect(throws: CallTimedOut.self) {
        try await breaker.run(timeout: .milliseconds(1)) {
          begun.note(1)
          await withTaskCancellationHandler {
            await work.hang()
          } onCancel: {
            gate.hold()
          }
        }
      }
    }
    await until { gate.isHeld }
    await #expect(throws: CallTimedOut.self) {
      try await breaker.run(timeout: .milliseconds(1)) { await work.hang() }
    }
    gate.letGo()
    work.release()
  }
}

/// Blocks the threads that call `hold` until the test releases them.
private final class HeldThread: Sendable {
  private let held = Guarded(0)
  private let isOver = Atomic(false)

  var isHeld: Bool { held.withLock { $0 > 0 } }

  func hold() {
    held.withLock { $0 += 1 }
    while !isOver.load(ordering: .acquiring) { usleep(500) }
  }

  func letGo() { isOver.store(true, ordering: .releasing) }
}
