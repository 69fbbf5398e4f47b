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
        openNanoseconds, from: openedAtMilliseconds, to: now)
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
    let left = min(max(0, length.subtractingSaturating(passed ?? 0)), length)
    return min(now.boot.advanced(by: left), Instant(nanoseconds: length))
  }
}
