/// What a reboot does to a record, whose instants are on a clock that began anew.
extension BreakerRecord {
  /// The record as it stands on the clock of this boot.
  ///
  /// What was left of a time is told by the wall clock, but is never more than the whole time
  /// counted from the boot, whatever the wall clock says.
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
    record.failureTimes = []
    record.reporters = []
    // The processes that held leases went with the boot, so their slots are free.
    record.leases = []
    // Successes that were counted elsewhere may have been lost with the power, failures were not:
    // a window that goes on could show more of these than there were.
    record.window = .none
    return record
  }

  private static func carriedOver(
    _ length: Int64, from startMilliseconds: Int64?, to now: Moment
  ) -> Instant {
    let passed = startMilliseconds.map {
      now.wallMilliseconds.subtractingSaturating($0).multipliedSaturating(by: 1_000_000)
    }
    // Less than nothing if it was over by then, which tells when.
    let left = min(length.subtractingSaturating(passed ?? 0), length)
    return min(now.boot.advanced(by: left), Instant(nanoseconds: length))
  }
}

/// How long the states have lasted, where no instant tells.
extension BreakerRecord {
  /// When the state began, on the clock of this boot, as far as wall clocks tell.
  ///
  /// - Parameters:
  ///   - createdAt: When the breaker was made, which began its first state.
  ///   - bootedAt: When this boot began: the same whenever it is asked for, for what is counted
  ///     from it may never go back.
  ///   - isEarlierBoot: Whether the state began before this boot.
  /// - Returns: An instant before the boot where that is so.
  package func stateBegan(
    createdAtMilliseconds createdAt: Int64, bootedAtMilliseconds bootedAt: Int64,
    beforeBoot isEarlierBoot: Bool
  ) -> Instant {
    let began = (changedAtMilliseconds ?? createdAt).subtractingSaturating(bootedAt)
      .multipliedSaturating(by: 1_000_000)
    return Instant(nanoseconds: isEarlierBoot ? min(0, began) : began)
  }
}
