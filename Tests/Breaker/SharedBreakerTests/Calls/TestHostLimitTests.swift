import Glibc
import SharedBreaker
import SharedBreakerTesting
import TestShim
import TestSupport
import Testing

/// Calls under a limit on a test host, after the end of a process, a reboot or a fork.
@Suite(.timeLimit(.minutes(60))) struct TestHostLimitTests {
  private let host = TestHost()
  private static let patient = BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(3_600))

  @Test func `callers of a killed process that wait for their turn leave, and others go on`()
    async throws
  {
    let breaker = try host.limited(Self.patient)
    let worker = host.process()
    let killed = try worker.store().breaker("gpu")
    let permit = try await breaker.acquire().shared()
    let errors = Notes<BreakerError>()
    let threads = Threads()
    threads.start {
      do throws(BreakerError) {
        killed.end(try killed.acquire())
      } catch {
        errors.note(error)
      }
    }
    let task = Task {
      do {
        killed.end(try await killed.acquire())
      } catch let error as BreakerError {
        errors.note(error)
      }
    }
    let other = Task { try await breaker.run { () async throws in 42 } }
    await until { breaker.snapshot().limit?.waiters.count == 3 }
    worker.kill()
    threads.join()
    try await task.value
    #expect(errors.count == 2)
    for error in errors.entries {
      guard case .store(let cause) = error else {
        Issue.record("\(error)")
        continue
      }
      #expect(cause.description.contains("process \(worker.pid) of the test host has ended"))
    }
    #expect(breaker.snapshot().limit?.waiters.count == 1)
    permit.succeed()
    #expect(try await other.value == 42)
  }

  @Test func `a caller that waits gets the room of a killed process at once`() async throws {
    let viewer = try host.limited(Self.patient)
    var worker = host.process()
    var permit = try await worker.store().breaker("gpu").acquire().shared()
    for lost in 1...20 {
      let next = host.process()
      let waiting = Task { try await next.store().breaker("gpu").acquire().shared() }
      await until { viewer.snapshot().limit?.waiters.count == 1 }
      worker.kill()
      permit = try await waiting.value
      worker = next
      #expect(viewer.snapshot().limit?.calls.map(\.pid) == [next.pid])
      #expect(viewer.snapshot().totals.lostCalls == Int64(lost))
    }
    #expect(permit.succeed() == .counted)
  }

  @Test func `a reboot ends the calls that were under way, and none of them is lost`() throws {
    let policy = BreakerPolicy(maxFailures: 1, maxConcurrent: 1, lostCalls: .failure)
    let permit = try host.limited(policy).acquire()
    host.reboot()
    let breaker = try host.limited(policy)
    host.clock.advance(by: .seconds(2))
    try breaker.run {}
    let snapshot = breaker.snapshot()
    #expect(snapshot.state == .closed && snapshot.totals.lostCalls == 0)
    #expect(snapshot.limit?.unitsInUse == 0 && snapshot.limit?.calls.isEmpty == true)
    let verdict = permit.succeed()
    #expect(verdict == .refused)
  }

  @Test func `the child of a fork has none of the calls of its parent, and takes nothing from it`()
    async
  {
    await #expect(processExitsWith: .success) {
      let host = TestHost()
      let policy = BreakerPolicy(maxFailures: 1, maxConcurrent: 1, lostCalls: .failure)
      let breaker = try host.limited(policy)
      let permit = try breaker.acquire().shared()
      let child = ts_fork()
      if child == 0 {
        var isRight = breaker.snapshot().limit?.unitsInUse == 0
        let own = try breaker.acquire().shared()
        isRight = isRight && breaker.isBusy
        // It is its parent's, and neither ends here nor is lost.
        permit.succeed()
        isRight = isRight && breaker.isBusy && breaker.snapshot().totals.lostCalls == 0
        own.succeed()
        _exit(isRight && !breaker.isBusy ? 0 : 1)
      }
      var status: Int32 = -1
      unsafe waitpid(child, &status, 0)
      let isRight = status == 0 && breaker.isBusy && permit.succeed() == .counted
      exit(isRight && !breaker.isBusy ? 0 : 1)
    }
  }
}
