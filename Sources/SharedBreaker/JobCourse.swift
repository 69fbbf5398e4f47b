internal import BreakerCore
internal import BreakerStore

extension BreakerJob {
  /// How far a job has come; under the job's lock.
  struct Course {
    enum Phase {
      case idle

      /// The breaker is being asked, or told, so that what comes next is being decided.
      case deciding
      case running(JobAttempt)
      case waiting(Task<Void, Never>)
    }

    var phase = Phase.idle

    /// Raised by each start and each end from outside, so that what belongs to an earlier one shows.
    var run: UInt64 = 0
    var failures = 0
    var lastError: (any Error)?

    /// How many threads are calling `tripped`.
    var tellings = 0

    /// Begins another run, if none is under way.
    mutating func begin() -> UInt64? {
      guard case .idle = phase else { return nil }
      phase = .deciding
      run += 1
      failures = 0
      return run
    }

    /// Ends a run where it is, and answers what is left of it.
    mutating func abandon() -> (call: Breaker.Call?, pending: Task<Void, Never>?) {
      defer {
        phase = .idle
        run += 1
      }
      switch phase {
      case .idle, .deciding: return (nil, nil)
      case .running(let attempt): return unsafe (attempt.call, attempt.deadline)
      case .waiting(let task): return (nil, task)
      }
    }

    /// Moves a run on, unless it was ended meanwhile.
    mutating func move(_ run: UInt64, to phase: Phase) -> Bool {
      guard self.run == run else { return false }
      self.phase = phase
      return true
    }
  }

  /// How an attempt has ended.
  enum Report {
    case success
    case failure((any Error)?)
    case ignored
    case timeout
  }
}

/// One attempt after the other.
extension BreakerJob {
  private var timer: StoreTimer { breaker.engine.options.timer }

  /// Asks the breaker, and runs the work if it lets it through.
  func attempt(in run: UInt64) -> Bool {
    let call: Breaker.Call
    do {
      call = try breaker.begin()
    } catch {
      guard lock.withLock({ unsafe course.move(run, to: .idle) }) else { return false }
      if case .rejected = error { trip(rejection: error) } else { giveUp(error) }
      return false
    }
    let attempt = JobAttempt(self, call, in: run)
    // The deadline is set before the work can report, so that there is always one to take away.
    let isOn = lock.withLock {
      guard unsafe course.move(run, to: .running(attempt)) else { return false }
      unsafe attempt.deadline = Task {
        do { try await timer.sleep(for: timeout) } catch { return }
        end(attempt, .timeout)
      }
      return true
    }
    guard isOn else {
      breaker.end(call, .ignored)
      return false
    }
    note("the work begins")
    work(attempt)
    return true
  }

  /// Takes the end of an attempt; false if it was over already.
  @discardableResult
  func end(_ attempt: JobAttempt, _ report: Report) -> Bool {
    let isFirst = lock.withLock {
      guard case .running(let current) = unsafe course.phase, current === attempt else {
        return false
      }
      return unsafe course.move(attempt.run, to: .deciding)
    }
    guard isFirst else {
      note("a report that comes too late is ignored")
      return false
    }
    unsafe attempt.deadline?.cancel()
    switch report {
    case .success:
      succeed(attempt)
    case .failure(let error):
      note("a failure was reported" + (error.map { ": \($0)" } ?? ""))
      fail(attempt, error, error.map(outcome) ?? .failure())
    case .ignored:
      fail(attempt, nil, .ignored)
    case .timeout:
      let error = CallTimedOut(name: breaker.name, timeout: timeout)
      note("the work has timed out")
      timedOut?(self)
      fail(attempt, error, .failure(error: error.description))
    }
    return true
  }

  private func succeed(_ attempt: JobAttempt) {
    breaker.end(attempt.call, .success)
    let isOn = lock.withLock {
      guard unsafe course.move(attempt.run, to: .idle) else { return false }
      unsafe course.lastError = nil
      return true
    }
    guard isOn else { return }
    note("the work was successful")
    successful?(self)
  }

  private func fail(_ attempt: JobAttempt, _ error: (any Error)?, _ outcome: Outcome) {
    breaker.end(attempt.call, outcome)
    let failures = lock.withLock { () -> Int? in
      guard unsafe course.run == attempt.run else { return nil }
      unsafe course.failures += 1
      if let error { unsafe course.lastError = error }
      return unsafe course.failures
    }
    // Ended from outside meanwhile, by the hook of the timeout perhaps.
    guard let failures else { return }
    let hasTripped = outcome.isFailure && !breaker.snapshot().permits
    if !hasTripped, let wait = retry.wait(after: failures, error: error, outcome: outcome) {
      waitAndTryAgain(wait, in: attempt.run)
      return
    }
    guard lock.withLock({ unsafe course.move(attempt.run, to: .idle) }) else { return }
    if hasTripped { trip(rejection: nil) } else { giveUp(error) }
  }

  private func waitAndTryAgain(_ wait: Duration, in run: UInt64) {
    note("the work will be tried again in \(wait)")
    lock.withLock {
      guard unsafe course.run == run else { return }
      let task = Task {
        do { try await timer.sleep(for: wait) } catch { return }
        guard lock.withLock({ unsafe course.move(run, to: .deciding) }) else { return }
        _ = attempt(in: run)
      }
      unsafe course.phase = .waiting(task)
    }
  }

  private func giveUp(_ error: (any Error)?) {
    note("the work has failed")
    failed?(self, error)
  }

  /// Tells of a trip; without a rejection, the breaker has opened at this job's own failure.
  private func trip(rejection: BreakerError?) {
    let (isTold, error) = lock.withLock { () -> (Bool, (any Error)?) in
      // Whoever starts again in the callback itself is not told once more, without end.
      if rejection != nil, unsafe course.tellings > 0 { return (true, nil) }
      unsafe course.tellings += 1
      return unsafe (false, course.lastError ?? rejection)
    }
    if isTold { return }
    note("the breaker has been tripped")
    tripped?(self, error)
    lock.withLock { unsafe course.tellings -= 1 }
  }
}
