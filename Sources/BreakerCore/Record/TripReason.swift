/// Why a breaker opens, and for how long if the reason names a time.
enum TripReason {
  case consecutive(Int64)
  case failuresWithin(Int, Duration)
  case failureRate(CallCounts)
  case slowRate(CallCounts)
  case permanent
  case named(Duration)
  case probeFailed
  case probeTimedOut
  case tooManyProbesFailed(Int64)
  case operatorSaid(String?, for: Duration?)

  var text: String {
    switch self {
    case .consecutive(let count): CountedNoun.text(count, "consecutive failure")
    case .failuresWithin(let count, let time):
      CountedNoun.text(count, "failure") + " within \(DurationText.format(time))"
    case .failureRate(let counts):
      "\(counts.failures) of \(CountedNoun.text(counts.calls, "call")) failed"
    case .slowRate(let counts):
      "\(counts.slow) of \(CountedNoun.text(counts.calls, "call")) took at least slow-after"
    case .permanent: "a permanent failure"
    case .named(let time): "a failure that named its open time, \(DurationText.format(time))"
    case .probeFailed: "the probe failed"
    case .probeTimedOut: "the probe took longer than probe-timeout"
    case .tooManyProbesFailed(let count): CountedNoun.text(count, "probe") + " failed"
    case .operatorSaid(let reason, _): reason ?? "tripped by hand"
    }
  }

  /// The open time that the reason names, if any.
  var openTime: Duration? {
    switch self {
    case .named(let time): time
    case .operatorSaid(_, let time): time
    case .consecutive, .failuresWithin, .failureRate, .slowRate, .permanent, .probeFailed,
      .probeTimedOut, .tooManyProbesFailed:
      nil
    }
  }

  /// Whether only an operator, or time, may end the open time.
  var isNamed: Bool { isOperators || openTime != nil }

  var isOperators: Bool {
    if case .operatorSaid = self { return true }
    return false
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
