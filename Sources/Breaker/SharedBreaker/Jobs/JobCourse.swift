internal import BreakerCore
internal import BreakerStore

extension BreakerJob {
  /// How far a job has come.
  struct Course {
    enum Phase {
      case idle

      /// The job is asking the breaker or reporting to it, which decides what comes next.
      case deciding
      case running(JobAttempt)

      /// The attempt has failed or was told to wait, and there will be another one.
      case waiting(JobAttempt)
    }

    /// A job that a parent was running at a fork stays the parent's: in the child it is idle.
    var phase: Phase {
      get { isOwn ? storedPhase : .idle }
      set {
        storedPhase = newValue
        forkDepth = ForkGuard.depth
        takeBack = nil
      }
    }

    /// Cancels what the timer will do in this phase: end the attempt, or begin the next one.
    var takeBack: (@Sendable () -> Void)?

    /// When the attempt that is running times out.
    ///
    /// An earlier deadline, which was renewed too late to be cancelled, differs from it and ends
    /// nothing.
    var deadline = Instant(nanoseconds: 0)

    private var storedPhase = Phase.idle
    private var forkDepth = ForkGuard.depth
    private var isOwn: Bool { forkDepth == ForkGuard.depth }

    /// The number of the run, raised by each start and cancellation, so that late events show.
    var run: UInt64 = 0
    var lastError: (any Error)?

    /// How many threads are inside the `tripped` callback.
    var tellings = 0

    /// Begins another run; nil if one is under way.
    mutating func begin() -> UInt64? {
      guard case .idle = phase else { return nil }
      phase = .deciding
      run += 1
      return run
    }

    /// Ends a run wherever it is, and returns what has to be cleaned up.
    mutating func abandon() -> (ticket: Ticket?, takeBack: (@Sendable () -> Void)?) {
      defer {
        phase = .idle
        run += 1
      }
      switch phase {
      case .idle, .deciding: return (nil, nil)
      case .running(let attempt): return (attempt.ticket, takeBack)
      case .waiting: return (nil, takeBack)
      }
    }

    func isRunning(_ attempt: JobAttempt) -> Bool {
      if case .running(let current) = phase { current === attempt } else { false }
    }

    func isWaiting(after attempt: JobAttempt) -> Bool {
      if case .waiting(let current) = phase { current === attempt } else { false }
    }

    /// Moves a run to its next phase; false if the run was ended meanwhile.
    mutating func move(_ run: UInt64, to phase: Phase) -> Bool {
      guard self.run == run, isOwn else { return false }
      self.phase = phase
      return true
    }
  }

  /// How an attempt ended.
  enum Report {
    case outcome(CallOutcome)
    case failure((any Error)?)
    case timeout(at: Instant)
  }
}

/// Making one attempt after the other.
extension BreakerJob {
  private var timer: StoreTimer { breaker.engine.options.timer }

  /// Asks the breaker, and runs the work if the breaker permits it.
  func attempt(
    in run: UInt64, after attempts: RetryPolicy.Attempts, last: JobAttempt? = nil
  ) -> Bool {
    let ticket: Ticket
    do {
      ticket =
        try last == nil
        ? breaker.begin(probeTimeout: longestAttempt)
        : breaker.beginRetry(probeTimeout: longestAttempt)
    } catch {
      var attempts = attempts
      if let last, let wait = error.rejection.flatMap({ attempts.wait(after: $0) }) {
        waitAndTryAgain(wait, after: last, attempts)
        return false
      }
      if last != nil, let cause = error.rejection?.cause, cause != .open {
        // It has not tripped: a hold, room or a turn comes too late, or the budget for retries is used up.
        if cause == .retryBudget { note("the work is not tried again: \(error)") }
        let (isOn, before) = course.withLock { ($0.move(run, to: .idle), $0.lastError) }
        if isOn { giveUp(before) }
        return false
      }
      return end(run, with: error)
    }
    return begin(ticket, in: run, after: attempts)
  }

  /// Asks the breaker as `attempt` does, and suspends the task until its turn.
  nonisolated(nonsending) func attemptInTurn(
    in run: UInt64, after attempts: RetryPolicy.Attempts
  ) async -> Bool {
    let ticket: Ticket
    do {
      ticket = try await breaker.beginInTurn(probeTimeout: longestAttempt)
    } catch let error as BreakerError {
      return end(run, with: error)
    } catch {
      _ = course.withLock { $0.move(run, to: .idle) }
      note("the task was cancelled while it waited for its turn")
      return false
    }
    return begin(ticket, in: run, after: attempts)
  }

  /// How long an attempt may take as a probe: one that is still within the timeout of the job must not
  /// lose its lease.
  private var longestAttempt: Duration { max(timeout, probeTimeout ?? .zero) }

  /// Ends a run that the breaker does not permit, or whose store cannot be used; answers false.
  private func end(_ run: UInt64, with error: BreakerError) -> Bool {
    guard course.withLock({ $0.move(run, to: .idle) }) else { return false }
    if case .rejected = error { trip(rejection: error) } else { giveUp(error) }
    return false
  }

  /// Runs the work under a permit; false if the run has ended meanwhile.
  private func begin(
    _ ticket: Ticket, in run: UInt64, after attempts: RetryPolicy.Attempts
  ) -> Bool {
    let attempt = JobAttempt(self, ticket, in: run, after: attempts)
    guard course.withLock({ $0.move(run, to: .running(attempt)) }) else {
      breaker.end(ticket, .ignored)
      return false
    }
    // The deadline is set before the work can report, so that a report always finds one to cancel.
    guard setDeadline(of: attempt, after: timeout) else { return false }
    note("the work begins")
    work(attempt)
    return true
  }

  /// Sets the deadline of an attempt unless it has a later one; false if the attempt has ended.
  private func setDeadline(of attempt: JobAttempt, after time: Duration) -> Bool {
    let deadline = breaker.engine.clock.instant.advanced(by: time.inNanoseconds)
    let (isRunning, earlier) = course.withLock { course -> (Bool, (@Sendable () -> Void)?) in
      guard course.isRunning(attempt) else { return (false, nil) }
      let isLater = course.takeBack == nil || deadline > course.deadline
      guard isLater else { return (true, nil) }
      defer { course.deadline = deadline }
      return (true, course.takeBack ?? {})
    }
    guard let earlier else { return isRunning }
    earlier()
    _ = schedule(after: time, while: { $0.isRunning(attempt) && $0.deadline == deadline }) {
      self.end(attempt, .timeout(at: deadline))
    }
    return course.withLock { $0.isRunning(attempt) }
  }

  /// Renews the time of an attempt; false if it has ended, or was a probe that has lost its lease.
  func renew(_ attempt: JobAttempt, for time: Duration) throws(BreakerError) -> Bool {
    guard course.withLock({ $0.isRunning(attempt) }),
      // As at the beginning of an attempt, the lease outlasts the timeout.
      try breaker.renew(attempt.ticket, for: max(time, probeTimeout ?? .zero))
    else { return false }
    return setDeadline(of: attempt, after: time)
  }

  /// Schedules something that can be cancelled; false if the job has moved on meanwhile.
  private func schedule(
    after time: Duration, while isStill: (Course) -> Bool, _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    let timer = timer
    // It runs code of the program, which may block. The lock is not held, because a timer may call
    // the body at once.
    let takeBack = timer.call(after: time) { timer.callAside(body) }
    let isOn = course.withLock { course in
      guard isStill(course) else { return false }
      course.takeBack = takeBack
      return true
    }
    if !isOn { takeBack() }
    return isOn
  }

  /// Handles the report of an attempt; false if the attempt had ended before.
  @discardableResult
  func end(_ attempt: JobAttempt, _ report: Report) -> Bool {
    let (isFirst, takeBack) = course.withLock { course -> (Bool, (@Sendable () -> Void)?) in
      guard course.isRunning(attempt) else { return (false, nil) }
      if case .timeout(let deadline) = report, deadline != course.deadline { return (false, nil) }
      let takeBack = course.takeBack
      return (course.move(attempt.run, to: .deciding), takeBack)
    }
    guard isFirst else {
      if case .timeout = report { return false }
      note("a report that comes too late is ignored")
      return false
    }
    takeBack?()
    switch report {
    case .outcome(.success):
      return succeed(attempt)
    case .outcome(let outcome):
      if outcome.isFailure { note("a failure was reported") }
      fail(attempt, nil, outcome)
    case .failure(let error):
      note("a failure was reported" + (error.map { ": \($0)" } ?? ""))
      fail(attempt, error, error.map(outcome) ?? .failure())
    case .timeout:
      timeOut(attempt)
    }
    return true
  }

  private func timeOut(_ attempt: JobAttempt) {
    let error = CallTimedOut(name: breaker.name, timeout: timeout)
    note("the work has timed out")
    timedOut?(self)
    fail(attempt, error, .failure(error: error.description))
  }

  /// Ends an attempt that has reported a success; false if the breaker had given it up before.
  private func succeed(_ attempt: JobAttempt) -> Bool {
    let verdict = breaker.end(attempt.ticket, .success)
    if verdict == .refused, breaker.hasLost(attempt.ticket) {
      timeOut(attempt)
      return false
    }
    let isOn = course.withLock { course in
      guard course.move(attempt.run, to: .idle) else { return false }
      course.lastError = nil
      return true
    }
    guard isOn else { return true }
    note("the work was successful")
    successful?(self)
    return true
  }

  private func fail(_ attempt: JobAttempt, _ error: (any Error)?, _ outcome: CallOutcome) {
    breaker.end(attempt.ticket, outcome)
    let isOn = course.withLock { course in
      guard course.run == attempt.run else { return false }
      if let error { course.lastError = error }
      return true
    }
    // The job was cancelled meanwhile, perhaps by the `timedOut` callback.
    guard isOn else { return }
    var attempts = attempt.attempts
    let policy = attempts.policy
    let rejection = breaker.snapshot().rejection.map { breaker.spread($0, for: policy) }
    let hasTripped = outcome.isFailure && rejection.map { $0.cause != .held } ?? false
    if let wait = attempts.wait(after: outcome, error: error, unless: rejection) {
      waitAndTryAgain(wait, after: attempt, attempts)
      return
    }
    guard course.withLock({ $0.move(attempt.run, to: .idle) }) else { return }
    if hasTripped { trip(rejection: nil) } else { giveUp(error) }
  }

  private func waitAndTryAgain(
    _ wait: Duration, after attempt: JobAttempt, _ attempts: RetryPolicy.Attempts
  ) {
    note("the work will be tried again in \(wait)")
    guard course.withLock({ $0.move(attempt.run, to: .waiting(attempt)) }) else { return }
    _ = schedule(after: wait, while: { $0.isWaiting(after: attempt) }) { [self] in
      let isOn = course.withLock { course in
        guard course.isWaiting(after: attempt) else { return false }
        return course.move(attempt.run, to: .deciding)
      }
      if isOn { _ = self.attempt(in: attempt.run, after: attempts, last: attempt) }
    }
  }

  private func giveUp(_ error: (any Error)?) {
    note("the work has failed")
    failed?(self, error)
  }

  /// Calls `tripped`; without a rejection, the breaker has opened at this job's own failure.
  private func trip(rejection: BreakerError?) {
    let (isTold, error) = course.withLock { course -> (Bool, (any Error)?) in
      // A `start` in the callback must not call the callback again, without end.
      if rejection != nil, course.tellings > 0 { return (true, nil) }
      course.tellings += 1
      return (false, course.lastError ?? rejection)
    }
    if isTold { return }
    note("the breaker has been tripped")
    tripped?(self, error)
    course.withLock { $0.tellings -= 1 }
  }
}
