/// The end of a permitted call.
extension BreakerRecord {
  /// Takes the outcome that a caller reports.
  ///
  /// `jitter` is a number from 0 up to 1, drawn by the caller in case this report opens the
  /// breaker. The record must have been settled at `now`.
  package mutating func reported(
    _ outcome: CallOutcome, for permit: PermitGrant, elapsed: Duration?, at now: Moment,
    by reporter: ProcessIdentity?, policy: BreakerPolicy, jitter: Double
  ) -> Step<ReportVerdict> {
    // A probe without its lease has already reported, or lost the lease at its deadline or when its
    // owner ended.
    var permit = permit
    if permit.kind == .probe {
      let lease = endLease(permit)
      if wentFirst(permit) {
        // It ends as any other call, also if the others have long gone on.
        permit.kind = .normal
        if holds.hold?.firstLease == permit.lease { holds.hold?.firstLease = nil }
      } else if let lease {
        if outcome == .success { noteSuccess(of: lease, elapsed: elapsed, at: now.boot) }
      } else {
        // A probe that lost its lease at its deadline has taken at least as long as that.
        if outcome == .success, let elapsed, elapsed >= policy.probeTimeout {
          noteLateSuccess(after: elapsed)
        }
        return Step(
          answer: .refused, events: hold(by: outcome, permit, reporter, now, policy) ?? [])
      }
    }
    let isSlow = policy.isSlow(elapsed)
    count(outcome, isSlow: isSlow, at: now)
    if let events = hold(by: outcome, permit, reporter, now, policy) {
      return Step(answer: .counted, events: events)
    }
    let ended = noteAnswer(outcome, to: permit, at: now, policy: policy).map { [$0] } ?? []
    guard isJudged(permit, at: now.boot) else {
      return Step(answer: .outdated, events: ended)
    }
    let call = EndedCall(
      outcome: outcome, isSlow: isSlow, now: now, reporter: reporter, jitter: jitter)
    let event: BreakerEvent?
    switch (state, permit.kind) {
    case (.closed, .normal): event = closedCallEnded(call, policy: policy)
    case (.halfOpen, .probe): event = probeEnded(call, policy: policy)
    case (.closed, .probe), (.open, _), (.halfOpen, .normal):
      return Step(answer: .outdated, events: ended)
    }
    return Step(answer: .counted, events: ended + (event.map { [$0] } ?? []))
  }

  /// Takes the time for which an outcome asks to be left alone; nil if it asks for none.
  private mutating func hold(
    by outcome: CallOutcome, _ permit: PermitGrant, _ reporter: ProcessIdentity?, _ now: Moment,
    _ policy: BreakerPolicy
  ) -> [BreakerEvent]? {
    guard case .hold(let wish) = outcome else { return nil }
    let giver = HoldGiver.call(permit, by: reporter.map { "process \($0.pid)" })
    return heldBack(wish, by: giver, at: now, policy: policy).events
  }

  /// Takes the loss of calls that were under way when their processes ended.
  ///
  /// Each process reports one of them, and the last process all that are left, because `reporters` asks only
  /// who has failed. Which of the calls were permitted before the state changed last is not known, so each
  /// counts as one of this state, but ends no hold that has begun since. The record must have been settled at `now`.
  package mutating func lost(
    _ calls: Int, of processes: [ProcessIdentity], at now: Moment, policy: BreakerPolicy,
    jitter: Double
  ) -> Step<Void> {
    totals.lostCalls = totals.lostCalls.addingSaturating(Int64(calls))
    var events: [BreakerEvent] = []
    for call in 0..<calls {
      let process = call < processes.count ? processes[call] : processes.last
      let who = process.map { "process \($0.pid)" } ?? "its process"
      let outcome: CallOutcome =
        switch policy.lostCalls {
        case .failure: .failure(error: "\(who) ended while the call was under way")
        case .ignored: .ignored
        }
      events +=
        reported(
          outcome, for: PermitGrant(kind: .normal, generation: generationOfState), elapsed: nil,
          at: now, by: process, policy: policy, jitter: jitter
        ).events
    }
    return Step(answer: (), events: events)
  }

  /// Whether a report of this outcome would change nothing but the totals.
  ///
  /// The common case is a healthy call, which need not be written before its caller continues.
  /// Anything that is due anyway, such as the end of a mode or a probe's timeout, is left to the
  /// next request.
  ///
  /// `isWindowElsewhere` says whether successes are counted outside the record's window, to be
  /// taken in later.
  package func isOnlyCounted(
    _ outcome: CallOutcome, for permit: PermitGrant, elapsed: Duration?, at now: Instant,
    policy: BreakerPolicy, isWindowElsewhere: Bool
  ) -> Bool {
    guard permit.kind == .normal, !outcome.asksToHold else { return false }
    if outcome != .ignored, decidesHold(permit, at: now) { return false }
    guard isJudged(permit, at: now), state == .closed else { return true }
    switch outcome {
    case .ignored, .hold:
      return true
    case .failure:
      return false
    case .success:
      guard streakStartedAt == nil else { return false }
      if CallWindow.none.fits(policy) { return true }
      return isWindowElsewhere && !(policy.isSlow(elapsed) && policy.slowRate != nil)
    }
  }

  /// Whether an outcome reported with this permit would be judged now.
  package func isJudged(_ permit: PermitGrant, at now: Instant) -> Bool {
    isJudging(at: now) && isOfThisState(permit.generation)
  }

  mutating func count(_ outcome: CallOutcome, isSlow: Bool, at now: Moment) {
    var counted = BreakerTotals()
    switch outcome {
    case .success: counted.successes = 1
    case .ignored: counted.ignored = 1
    case .hold:
      counted.ignored = 1
      counted.holds = 1
    case .failure(let failure):
      counted.failures = 1
      lastFailureAtMilliseconds = now.wallMilliseconds
      lastError = failure.error.map { OutsideText.cut($0) }
    }
    if isSlow, outcome == .success || outcome.isFailure { counted.slow = 1 }
    totals += counted
  }
}

/// A call that ended, and the circumstances.
struct EndedCall {
  var outcome: CallOutcome
  var isSlow: Bool
  var now: Moment
  var reporter: ProcessIdentity?
  var jitter: Double

  var failure: CallOutcome.Failure? {
    if case .failure(let failure) = outcome { return failure }
    return nil
  }
}

extension BreakerRecord {
  mutating func closedCallEnded(_ call: EndedCall, policy: BreakerPolicy) -> BreakerEvent? {
    guard call.outcome != .ignored else { return nil }
    fitWindow(to: policy)
    if call.failure != nil {
      streakStartedAt = streakStartedAt ?? call.now.boot
      if !isLumped(call.now.boot, policy: policy) { countFailure(call, policy: policy) }
      noteReporter(of: .failure, call, policy: policy)
    } else {
      consecutiveFailures = 0
      streakStartedAt = nil
      window.add(isFailure: false, isSlow: call.isSlow, at: call.now.boot)
    }
    let isTooSlow = call.isSlow && policy.slowRate != nil
    if isTooSlow { noteReporter(of: .slowCall, call, policy: policy) }
    guard call.failure != nil || isTooSlow else { return nil }
    guard let trip = tripCondition(met: call, policy: policy) else { return nil }
    return open(at: call.now, because: trip, policy: policy, jitter: call.jitter)
  }

  private func isLumped(_ now: Instant, policy: BreakerPolicy) -> Bool {
    guard let lumping = policy.lumping?.inNanoseconds, let lastCountedFailureAt else {
      return false
    }
    return now.since(lastCountedFailureAt) < lumping
  }

  private mutating func countFailure(_ call: EndedCall, policy: BreakerPolicy) {
    let now = call.now.boot
    lastCountedFailureAt = now
    consecutiveFailures += 1
    window.add(isFailure: true, isSlow: call.isSlow, at: now)
    guard let failures = policy.failures else {
      failureTimes = []
      return
    }
    failureTimes.append(now)
    failureTimes.removeFirst(max(0, failureTimes.count - failures))
  }

  /// Remembers the process that reported, up to `policy.reporters` of them, dropping the oldest.
  private mutating func noteReporter(
    of evidence: Reporter.Evidence, _ call: EndedCall, policy: BreakerPolicy
  ) {
    guard policy.reporters > 1 else {
      reporters = []
      return
    }
    guard let process = call.reporter else { return }
    var witnesses = reporters.filter { $0.evidence == evidence && $0.process != process }
    witnesses.append(
      Reporter(process: process, evidence: evidence, at: call.now.boot, call: window.sequence))
    reporters.removeAll { $0.evidence == evidence }
    reporters += witnesses.suffix(policy.reporters)
  }
}

extension BreakerRecord {
  /// The first trip condition that this call has met, if any.
  ///
  /// Failures are judged by the conditions on failures, and slow calls by the condition on slow
  /// calls. A call that was neither never opens a breaker.
  func tripCondition(met call: EndedCall, policy: BreakerPolicy) -> TripReason? {
    let now = call.now.boot
    if let failure = call.failure {
      switch failure.kind {
      case .opens(let time) where hasReporters(policy, since: streakStartedAt):
        return .named(time)
      case .permanent where hasReporters(policy, since: streakStartedAt):
        return .permanent
      case .opens, .permanent, .ordinary:
        break
      }
      if let limit = policy.consecutiveFailuresToOpen, consecutiveFailures >= Int64(limit),
        hasReporters(policy, since: streakStartedAt)
      {
        return .consecutive(consecutiveFailures)
      }
      if let failures = policy.failures, let within = policy.within {
        let oldest = now.advanced(by: 1 - within.inNanoseconds)
        if recentFailures(within: within, at: now) >= Int64(failures),
          hasReporters(policy, since: oldest)
        {
          return .failuresWithin(failures, within)
        }
      }
    }
    let counts = window.counts(at: now)
    guard counts.calls >= Int64(policy.callsToJudge) else { return nil }
    if call.failure != nil, let rate = policy.failureRate,
      rate.isReached(by: counts.failures, of: counts.calls),
      hasReporters(policy, of: .failure, where: { window.covers($0, at: now) })
    {
      return .failureRate(counts)
    }
    if call.isSlow, let rate = policy.slowRate, rate.isReached(by: counts.slow, of: counts.calls),
      hasReporters(policy, of: .slowCall, where: { window.covers($0, at: now) })
    {
      return .slowRate(counts)
    }
    return nil
  }

  /// How many of the remembered failures are younger than `time`.
  package func recentFailures(within time: Duration, at now: Instant) -> Int64 {
    let oldest = now.advanced(by: 1 - time.inNanoseconds)
    return Int64(failureTimes.count { $0 >= oldest })
  }

  private func hasReporters(_ policy: BreakerPolicy, since start: Instant?) -> Bool {
    hasReporters(policy, of: .failure) { reporter in start.map { reporter.at >= $0 } == true }
  }

  private func hasReporters(
    _ policy: BreakerPolicy, of evidence: Reporter.Evidence, where isRecent: (Reporter) -> Bool
  ) -> Bool {
    guard policy.reporters > 1 else { return true }
    return reporters.count { $0.evidence == evidence && isRecent($0) } >= policy.reporters
  }
}

/// Calls counted in memory that all processes share, and not yet taken in by the record.
package struct HealthyCalls: Sendable, Hashable {
  /// The amounts to add to the record's totals.
  package var totals = BreakerTotals()

  /// The successes that the breaker judges, whenever they happened.
  package var successes: Int64 = 0

  /// The successes in each bucket of a time window, oldest first.
  package var buckets: [Bucket] = []

  package struct Bucket: Sendable, Hashable {
    package var start: Instant
    package var successes: Int64

    package init(start: Instant, successes: Int64) {
      self.start = start
      self.successes = successes
    }
  }

  package init() {}
}

extension BreakerRecord {
  /// Takes in calls counted elsewhere, which happened before the record's next change.
  package mutating func takeIn(_ calls: HealthyCalls, policy: BreakerPolicy) {
    totals += calls.totals
    guard state == .closed, calls.successes > 0 else { return }
    fitWindow(to: policy)
    switch window {
    case .none:
      break
    case .time(var time):
      window = .none
      for bucket in calls.buckets { time.add(successes: bucket.successes, at: bucket.start) }
      window = .time(time)
    case .last(var last):
      window = .none
      last.add(successes: calls.successes)
      window = .last(last)
    }
  }

  /// Starts a new window if the policy now asks for a different one.
  mutating func fitWindow(to policy: BreakerPolicy) {
    guard !window.fits(policy) else { return }
    window = CallWindow(for: policy)
    reporters = []
  }
}
