/// Changes that the passage of time alone makes to a record.
extension BreakerRecord {
  /// Brings the record up to an instant; every step and every read starts with this.
  ///
  /// A mode that expired ended at its expiry, and a probe that took too long failed at its
  /// deadline. Both are applied in order of time, however late a process notices. A reader
  /// therefore sees the same record as the next caller, and nothing that begins later can undo it.
  ///
  /// If the owner of a lease is gone, its slot is free from now on. The probe has failed if the policy counts
  /// lost calls as failures. Otherwise one lost probe tells nothing about the resource, and if the next one
  /// is lost too, the one after it waits for `open-for`. Once the deadline has passed, the probe has failed
  /// even if its owner is gone, because no process knows when the owner ended (rule of order 11).
  ///
  /// `isGone` reports whether the process that owns a lease has ended.
  package mutating func settle(
    at now: Moment, policy: BreakerPolicy, isGone: (ProcessIdentity) -> Bool
  ) -> [BreakerEvent] {
    guard
      mode.until != nil || !leases.isEmpty || holds.hold?.turnUntil != nil || rampUntil != nil
    else { return [] }
    var events = endTurn(by: now, policy: policy)
    let late = leases.filter { now.boot >= $0.deadline }
    for lease in late.sorted(by: { ($0.deadline, $0.id) < ($1.deadline, $1.id) }) {
      let then = now.at(lease.deadline)
      events += endMode(by: then)
      events += timeOut(lease, at: then, policy: policy)
    }
    events += endMode(by: now)
    events += takeBack(leases.filter { $0.owner.map(isGone) == true }, at: now, policy: policy)
    // One that has begun with any of these may be over too.
    endRamp(by: now, policy: policy)
    return events
  }

  /// The record as it stands at an instant.
  package func settled(
    at now: Moment, policy: BreakerPolicy, isGone: (ProcessIdentity) -> Bool
  ) -> BreakerRecord {
    var record = self
    _ = record.settle(at: now, policy: policy, isGone: isGone)
    return record
  }

  /// Ends a mode that has expired by then.
  private mutating func endMode(by now: Moment) -> [BreakerEvent] {
    guard let until = mode.until, now.boot >= until else { return [] }
    let event = modeEvent(to: .automatic, because: "the mode has expired", at: now.at(until))
    mode = ModeSetting()
    return [event]
  }

  /// Fails a probe at its deadline.
  private mutating func timeOut(
    _ lease: ProbeLease, at now: Moment, policy: BreakerPolicy
  ) -> [BreakerEvent] {
    leases.removeAll { $0.id == lease.id }
    let who = lease.owner.map { "process \($0.pid)" } ?? "it"
    let event = BreakerEvent(
      .probe(.timedOut), reason: "\(who) took longer than probe-timeout",
      atMilliseconds: now.wallMilliseconds)
    if isSuspected, isJudging(at: now.boot), isOfThisState(lease.generation),
      usualProbeNanoseconds == nil
    {
      // This breaker cannot know how long calls take here, and has seen no failure of its own.
      return [
        event, acquit(at: now, because: "how long calls take here is unknown", policy: policy),
      ]
    }
    count(.failure(error: TripReason.probeTimedOut.text), isSlow: false, at: now)
    guard isJudging(at: now.boot), isOfThisState(lease.generation) else { return [event] }
    let opening = probeFailed(
      at: now, because: .timeout, policy: policy, jitter: lease.jitter)
    return [event] + (opening.map { [$0] } ?? [])
  }

  /// Frees the slots of probes whose owners are gone.
  ///
  /// No process knows when an owner ended, but each knows when its probe began. The consequences
  /// count from there, so that all callers see the same, however late they notice.
  private mutating func takeBack(
    _ lost: [ProbeLease], at now: Moment, policy: BreakerPolicy
  ) -> [BreakerEvent] {
    var events: [BreakerEvent] = []
    let isFirst = openUntil == nil
    for lease in lost {
      leases.removeAll { $0.id == lease.id }
      if isOfFirst(lease) {
        // The next call goes first.
        holds.hold?.firstLease = nil
        continue
      }
      let isCurrent = state == .halfOpen && isOfThisState(lease.generation)
      let began = lease.began.map { now.at($0) } ?? now
      var pause = ""
      switch policy.lostCalls {
      case .ignored where isCurrent && isFirst:
        // One loss holds no probe back.
        (openNanoseconds, openUntil) = (0, now.boot)
      case .ignored where isCurrent && holdsBackProbes(after: began.boot, policy: policy):
        pause = ", as that of the probe before did: the next probe waits for open-for"
      case .ignored, .failure: break
      }
      events.append(
        BreakerEvent(
          .probe(.lost), reason: lease.owner.map { "process \($0.pid) has ended\(pause)" },
          atMilliseconds: now.wallMilliseconds))
      // The call itself is counted with all that its process has lost.
      guard policy.lostCalls == .failure, isCurrent, isJudging(at: now.boot) else { continue }
      let opening = probeFailed(
        at: began, because: .lost, policy: policy, jitter: lease.jitter)
      if let opening { events.append(opening) }
    }
    return events
  }

  /// Notes that a probe was lost after another one of this round; true if the next one has to wait.
  ///
  /// A resource that kills its callers would otherwise kill one after the other. A probe that began before
  /// the earlier loss was noticed ran beside the lost one: what ends both at once is one loss.
  private mutating func holdsBackProbes(after began: Instant, policy: BreakerPolicy) -> Bool {
    guard let openUntil, began >= openUntil else { return false }
    openNanoseconds = policy.openFor.inNanoseconds
    self.openUntil = began.advanced(by: openNanoseconds)
    return true
  }
}

/// Changes after a reboot, which has restarted the clock of the record's instants.
extension BreakerRecord {
  /// The record converted to the clock of this boot.
  ///
  /// The wall clock tells how much of each period is left, but no period ends later than its full
  /// length after the boot, whatever the wall clock says.
  package func carriedOver(to now: Moment) -> BreakerRecord {
    var record = self
    if state == .open {
      record.openUntil = Self.carriedOver(
        openNanoseconds, from: extendedAtMilliseconds ?? openedAtMilliseconds, to: now)
    }
    if mode.until != nil {
      record.mode.until = Self.carriedOver(
        mode.lengthNanoseconds, from: mode.setAtMilliseconds, to: now)
    }
    record.endTurn()
    if let hold = holds.hold {
      record.holds.hold?.until = Self.carriedOver(
        hold.lengthNanoseconds, from: hold.setAtMilliseconds, to: now)
    }
    // No call is under way after a boot, and few come at once.
    record.noRamp()
    let bootTime = Instant(nanoseconds: 0)
    if state == .halfOpen { record.openUntil = nil }
    record.closedAt = closedAt.map { _ in bootTime }
    record.streakStartedAt = streakStartedAt.map { _ in bootTime }
    record.lastCountedFailureAt = nil
    record.suspectedAt = isSuspected ? suspectedAt : nil
    record.recoveredAt = nil
    record.failureTimes = []
    record.outageTimes = []
    record.reporters = []
    // The processes that held leases ended with the earlier boot, so their slots are free.
    record.leases = []
    // A power cut may have lost successes counted elsewhere, but no failures. A window that
    // continued could show too high a share of failures.
    record.window = .none
    return record
  }

  private static func carriedOver(
    _ length: Int64, from startMilliseconds: Int64?, to now: Moment
  ) -> Instant {
    let passed = startMilliseconds.map {
      now.wallMilliseconds.subtractingSaturating($0).multipliedSaturating(by: 1_000_000)
    }
    // Negative if the period had ended by then, which tells when it ended.
    let left = min(length.subtractingSaturating(passed ?? 0), length)
    return min(now.boot.advanced(by: left), Instant(nanoseconds: length))
  }
}

/// How long a state has lasted when no instant recorded its beginning.
extension BreakerRecord {
  /// Sets when the state began, on the clock of this boot; a suspicion began with its state.
  package mutating func moveBeginning(to instant: Instant) {
    if isSuspected { suspectedAt = instant }
    tally.since = instant
  }

  /// When the state began, on the clock of this boot, as far as wall clocks can tell.
  ///
  /// - Parameters:
  ///   - createdAt: When the breaker was created, which is when its first state began.
  ///   - bootedAt: When this boot began. It must be the same at every call, because durations
  ///     counted from it must never go backwards.
  ///   - isEarlierBoot: Whether the state began before this boot.
  /// - Returns: The instant, which lies before the boot if the state began in an earlier one.
  package func stateBegan(
    createdAtMilliseconds createdAt: Int64, bootedAtMilliseconds bootedAt: Int64,
    beforeBoot isEarlierBoot: Bool
  ) -> Instant {
    let began = (changedAtMilliseconds ?? createdAt).subtractingSaturating(bootedAt)
      .multipliedSaturating(by: 1_000_000)
    return Instant(nanoseconds: isEarlierBoot ? min(0, began) : began)
  }
}

/// Times that no process with the host's clock can have written.
extension BreakerRecord {
  /// Corrects every instant that lies further ahead than any policy allows.
  ///
  /// A process with a false boot clock, such as libfaketime's, may have written it. The right instant
  /// is unknown, so whatever it would end is over: an open breaker is due, and its next call finds
  /// out about the resource.
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
    if let hold = holds.hold, hold.until.isFalseEnd(ofPeriod: hold.lengthNanoseconds, at: now) {
      holds.hold?.until = now
    }
    if let until = holds.hold?.turnUntil, until.isFalseDeadline(at: now) { endTurn() }
    if let until = rampUntil, until.isFalseDeadline(at: now) { noRamp() }
    leases.removeAll { $0.deadline.isFalseDeadline(at: now) }
    streakStartedAt = streakStartedAt?.inPast(of: now)
    lastCountedFailureAt = lastCountedFailureAt.flatMap { $0.isFalsePast(at: now) ? nil : $0 }
    closedAt = closedAt?.inPast(of: now)
    suspectedAt = suspectedAt?.inPast(of: now)
    recoveredAt = recoveredAt?.inPast(of: now)
    tally.since = tally.since?.inPast(of: now)
    failureTimes.removeAll { $0.isFalsePast(at: now) }
    outageTimes.removeAll { $0.isFalsePast(at: now) }
    reporters.removeAll { $0.at.isFalsePast(at: now) }
    window.forgetFuture(at: now)
    return self != before
  }
}

extension Instant {
  /// How far two readings of the clock of one boot may differ.
  private static let tolerance: Int64 = 60_000_000_000

  /// Whether a period that began in the past cannot end at this instant.
  fileprivate func isFalseEnd(ofPeriod length: Int64, at now: Instant) -> Bool {
    let longest = BreakerPolicy.longestDuration.inNanoseconds
    return since(now) > max(0, min(length, longest)) + Self.tolerance
  }

  /// Whether no deadline can be as late as this.
  func isFalseDeadline(at now: Instant) -> Bool { isFalseEnd(ofPeriod: .max, at: now) }

  /// Whether nothing can have happened at this instant, because it is yet to come.
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
