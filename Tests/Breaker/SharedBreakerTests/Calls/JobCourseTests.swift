import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// The course of a job from its start to its end, with its callbacks.
@Suite(.timeLimit(.minutes(60))) struct JobCourseTests {
  let bench = JobBench()

  @Test func `a job that succeeds is closed and has no failures`() throws {
    let job = try bench.job { $0.success() }
    job.start()
    #expect(bench.events.entries == ["work at 0", "successful, closed 0"])
  }

  @Test func `work that exceeds its timeout counts as a failure`() async throws {
    let attempts = Notes<JobAttempt>()
    let job = try bench.job(timeout: .seconds(3)) { attempts.note($0) }
    await job.start()
    try await bench.pass(.seconds(3))
    await bench.until(3)
    #expect(
      bench.events.entries == ["work at 0", "timed out, closed 0", "failed, closed 1, timeout"])
  }

  @Test func `a job tries again after a failure and succeeds`() async throws {
    let tries = Notes<Int>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 2), retry: .fixed(attempts: .max, delay: .seconds(1))
    ) {
      tries.note(1)
      if tries.count == 1 { $0.failure(Refused()) } else { $0.success() }
    }
    await job.start()
    try await bench.pass(.seconds(1))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 1", "successful, closed 0"])
  }

  @Test func `a job that was told to wait tries again at the end of the hold, and no earlier`()
    async throws
  {
    let tries = Notes<Int>()
    let job = try bench.job(retry: .fixed(attempts: 2, delay: .seconds(1))) {
      tries.note(1)
      if tries.count == 1 { _ = $0.report(.hold(for: .seconds(12))) } else { $0.success() }
    }
    #expect(job.start())
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(12))
    try bench.host.process().store().breaker("api").hold(for: .seconds(20))
    try await bench.pass(.seconds(12))
    try await bench.pass(.seconds(8))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 20", "successful, closed 0"])
  }

  @Test func `a job whose hold is longer than its longest wait has failed`() throws {
    let job = try bench.job(retry: .fixed(attempts: 2, delay: .seconds(1))) {
      _ = $0.report(.hold(for: .seconds(61)))
    }
    #expect(job.start())
    #expect(bench.events.entries == ["work at 0", "failed, closed 0, no error"])
  }

  @Test func `a job that cannot wait until a longer hold ends has failed, not tripped`()
    async throws
  {
    let job = try bench.job(retry: .fixed(attempts: 2, delay: .seconds(1))) {
      _ = $0.report(.hold(for: .seconds(12)))
    }
    #expect(job.start())
    try await bench.host.clock.untilSomebodySleeps(for: .seconds(12))
    try bench.host.process().store().breaker("api").hold(for: .seconds(90))
    try await bench.pass(.seconds(12))
    await bench.until(2)
    #expect(bench.events.entries == ["work at 0", "failed, closed 0, no error"])
  }

  @Test func `a job resets its failures before it reports a success`() async throws {
    let job = try bench.job(retry: retrying()) { attempt in
      if attempt.job.failureCount == 0 { attempt.failure(Refused()) } else { attempt.success() }
    }
    #expect(job.start())
    try await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries == ["work at 0", "work at 2", "successful, closed 0"])
    #expect(job.failureCount == 0)
    #expect(job.state == .closed)
    #expect(!job.isUnderWay)
  }

  @Test func `a job trips once its retries have failed, and stays open`() async throws {
    let job = try bench.job(retry: .fixed(attempts: .max, delay: .seconds(1))) {
      $0.failure(Refused(code: 404))
    }
    await job.start()
    try await bench.pass(.seconds(1))
    try await bench.pass(.seconds(1))
    await bench.until(4)
    #expect(
      bench.events.entries == ["work at 0", "work at 1", "work at 2", "tripped, open 3, 404"])
    #expect(job.state == .open)
    #expect(job.failureCount == 3)
    await job.start()
    #expect(bench.events.entries.last == "tripped, open 3, 404")
    #expect(job.failureCount == 3)
  }

  @Test func `a job with one failure allowed trips after one run and does not retry`() throws {
    let job = try bench.job(BreakerPolicy(maxFailures: 1), retry: retrying()) {
      $0.failure(Refused(code: 500))
    }
    job.start()
    #expect(bench.events.entries == ["work at 0", "tripped, open 1, 500"])
    #expect(bench.host.clock.sleeps.isEmpty)
  }

  @Test func `a job waits between its retries for growing powers of its base`() async throws {
    let job = try bench.job(retry: .powers(of: 2, attempts: .max)) {
      $0.failure(Refused(code: 404))
    }
    await job.start()
    try await bench.pass(.seconds(2))
    try await bench.pass(.seconds(4))
    await bench.until(4)
    #expect(
      bench.events.entries == ["work at 0", "work at 2", "work at 6", "tripped, open 3, 404"])
  }

  @Test func `a job that times out tries again and succeeds at the second attempt`()
    async throws
  {
    let work = Notes<JobAttempt>()
    let job = try bench.job(timeout: .seconds(3), retry: retrying()) { work.note($0) }
    await job.start()
    try await bench.pass(.seconds(3))
    try await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(work.entries.last?.success() == true)
    #expect(
      bench.events.entries == [
        "work at 0", "timed out, closed 0", "work at 5", "successful, closed 0",
      ])
  }

  @Test func `a job keeps its last error when a failure has none`() async throws {
    let tries = Notes<Int>()
    let job = try bench.job(BreakerPolicy(maxFailures: 2), retry: retrying()) {
      tries.note(1)
      $0.failure(tries.count == 1 ? Refused(code: 400) : nil)
    }
    await job.start()
    try await bench.pass(.seconds(2))
    await bench.until(3)
    #expect(bench.events.entries.last == "tripped, open 2, 400")
    let silent = try bench.job(BreakerPolicy(maxFailures: 1), name: "silent") { $0.failure() }
    await silent.start()
    #expect(bench.events.entries.last == "tripped, open 1, no error")
  }

  @Test
  func `a job that trips because of a timeout reports the timeout as its error`() async throws {
    let job = try bench.job(
      BreakerPolicy(maxFailures: 1, openFor: .seconds(10)), timeout: .seconds(1)
    ) { _ in }
    await job.start()
    try await bench.pass(.seconds(1))
    await bench.until(3)
    #expect(bench.events.entries.last == "tripped, open 1, timeout")
  }

  @Test func `a job writes readable lines to its log`() async throws {
    let lines = Notes<String>()
    let job = try bench.job(
      BreakerPolicy(maxFailures: 2), timeout: .seconds(5), retry: retrying()
    ) { if lines.count == 1 { $0.failure(Refused()) } }
    job.log = { lines.note($0) }
    await job.start()
    try await bench.pass(.seconds(2))
    try await bench.pass(.seconds(5))
    await bench.until(4)
    try job.reset()
    #expect(
      lines.entries == [
        "api: the work begins", "api: a failure was reported: Refused(code: 500)",
        "api: the work will be tried again in 2.0 seconds", "api: the work begins",
        "api: the work has timed out", "api: the breaker has been tripped",
        "api: the breaker has been reset",
      ])
  }

  @Test func `a job needs no run loop and no reference to keep it alive`() async throws {
    let threads = Threads()
    let bench = bench
    threads.start {
      let tries = Notes<Int>()
      let job = try? bench.job(
        timeout: .seconds(1), retry: .fixed(attempts: .max, delay: .seconds(2))
      ) {
        tries.note(1)
        if tries.count == 2 { $0.success() }
      }
      job?.start()
    }
    threads.join()
    try await bench.pass(.seconds(1))
    try await bench.pass(.seconds(2))
    await bench.until(4)
    #expect(
      bench.events.entries == [
        "work at 0", "timed out, closed 0", "work at 3", "successful, closed 0",
      ])
  }
}
