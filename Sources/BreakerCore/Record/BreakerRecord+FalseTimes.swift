/// Times that no process with the host's clock can have written.
extension BreakerRecord {
  /// Corrects every instant that lies further ahead than any policy allows.
  ///
  /// A process with a false boot clock, such as libfaketime's, may have written it. When it was
  /// really meant is unknown, so whatever it would end is over: an open breaker is due, and its next
  /// call finds out about the resource.
  ///
  /// - Parameter now: The time, read after the record was.
  /// - Returns: Whether there was any such instant.
  package mutating func correctFalseTimes(at now: Instant) -> Bool {
    let before = self
    openUntil = openUntil.map {
      $0.isFalseEnd(ofPeriod: openNanoseconds, at: now) ? now : $0
    }
    mode.until = mode.until.map {
      $0.isFalseEnd(ofPeriod: mode.lengthNanoseconds, at: now) ? now : $0
    }
    leases.removeAll { $0.deadline.isFalseDeadline(at: now) }
    streakStartedAt = streakStartedAt?.inPast(of: now)
    lastCountedFailureAt = lastCountedFailureAt.flatMap { $0.isFalsePast(at: now) ? nil : $0 }
    closedAt = closedAt?.inPast(of: now)
    suspectedAt = suspectedAt?.inPast(of: now)
    tally.since = tally.since?.inPast(of: now)
    failureTimes.removeAll { $0.isFalsePast(at: now) }
    reporters.removeAll { $0.at.isFalsePast(at: now) }
    window.forgetFuture(at: now)
    return self != before
  }
}

extension Instant {
  /// How far two readings of the clock of one boot may differ.
  private static let tolerance: Int64 = 60_000_000_000

  /// Whether it cannot be when a period that began in the past ends.
  fileprivate func isFalseEnd(ofPeriod length: Int64, at now: Instant) -> Bool {
    let longest = BreakerPolicy.longestDuration.inNanoseconds
    return since(now) > max(0, min(length, longest)) + Self.tolerance
  }

  /// Whether it is later than any deadline can be.
  func isFalseDeadline(at now: Instant) -> Bool { isFalseEnd(ofPeriod: .max, at: now) }

  /// Whether it cannot be when something happened.
  fileprivate func isFalsePast(at now: Instant) -> Bool { isFalseEnd(ofPeriod: 0, at: now) }

  fileprivate func inPast(of now: Instant) -> Instant { isFalsePast(at: now) ? now : self }
}

extension CallWindow {
  fileprivate mutating func forgetFuture(at now: Instant) {
    switch self {
    case .none, .last: break
    case .time(var window):
      self = .none
      window.forgetFuture(at: now)
      self = .time(window)
    }
  }
}
