import SharedBreaker
import SharedBreakerTesting

/// A host on which jobs run, and a journal of everything that they call back.
struct JobBench {
  let host = TestHost()
  let events = Notes<String>()

  /// Creates a job whose attempts and callbacks are all noted.
  func job(
    _ policy: BreakerPolicy = BreakerPolicy(maxFailures: 3), timeout: Duration = .seconds(10),
    retry: RetryPolicy = .never, name: String = "api",
    work: @escaping @Sendable (JobAttempt) -> Void
  ) throws -> BreakerJob {
    let breaker = try host.store().breaker(name, policy: policy)
    let job = BreakerJob(breaker, timeout: timeout, retry: retry) { [self] attempt in
      events.note("work at \(seconds)")
      work(attempt)
    }
    return noting(job)
  }

  /// Notes all callbacks of a job.
  func noting(_ job: BreakerJob) -> BreakerJob {
    job.successful = { [self] in events.note("successful, \(condition(of: $0))") }
    job.tripped = { [self] in events.note("tripped, \(condition(of: $0)), \(words(for: $1))") }
    job.failed = { [self] in events.note("failed, \(condition(of: $0)), \(words(for: $1))") }
    job.timedOut = { [self] in events.note("timed out, \(condition(of: $0))") }
    return job
  }

  /// Waits until a task or thread sleeps for a time, and advances the clock by it.
  func pass(_ time: Duration) async throws {
    try await host.clock.untilSomebodySleeps(for: time)
    host.clock.advance(by: time)
  }

  /// Waits until the journal has that many entries.
  func until(_ count: Int) async {
    await SharedBreakerTests.until { events.count >= count }
  }

  private var seconds: Int64 { host.clock.now.offset.components.seconds }

  private func condition(of job: BreakerJob) -> String {
    "\(job.state.wireName) \(job.failureCount)"
  }

  private func words(for error: (any Error)?) -> String {
    switch error {
    case let error as Refused: "\(error.code)"
    case let error as BreakerError: error.rejection == nil ? "store" : "rejected"
    case is CallTimedOut: "timeout"
    case nil: "no error"
    default: "another error"
    }
  }
}

/// Retries without end, with the same wait before each attempt.
func retrying(every delay: Duration = .seconds(2)) -> RetryPolicy {
  .fixed(attempts: .max, delay: delay)
}
