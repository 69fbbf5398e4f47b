/// What a reboot does to a record, whose instants are on a clock that has restarted.
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
    let bootTime = Instant(nanoseconds: 0)
    record.closedAt = closedAt.map { _ in bootTime }
    record.streakStartedAt = streakStartedAt.map { _ in bootTime }
    record.lastCountedFailureAt = nil
    record.suspectedAt = isSuspected ? suspectedAt : nil
    record.failureTimes = []
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
  /// Takes over when the state began, on the clock of this boot; a suspicion began with its state.
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
