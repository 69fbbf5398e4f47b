/// A point on the host's boot clock, which all processes share and no user can set.
package struct Instant: Sendable, Hashable, Comparable {
  package var nanoseconds: Int64

  package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  package static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }

  /// The instant `nanoseconds` later, or the last one that 64 bits can hold.
  package func advanced(by nanoseconds: Int64) -> Self {
    Self(nanoseconds: self.nanoseconds.addingSaturating(nanoseconds))
  }

  /// How many nanoseconds have passed since `earlier`; negative if it is in the future.
  package func since(_ earlier: Self) -> Int64 {
    nanoseconds.subtractingSaturating(earlier.nanoseconds)
  }
}

/// One reading of both clocks: the boot clock decides; the wall clock is for people and reboots.
package struct Moment: Sendable, Hashable {
  package var boot: Instant
  package var wallMilliseconds: Int64

  package init(boot: Instant, wallMilliseconds: Int64) {
    self.boot = boot
    self.wallMilliseconds = wallMilliseconds
  }

  /// The reading of both clocks at an earlier instant.
  package func at(_ instant: Instant) -> Moment {
    Moment(
      boot: instant,
      wallMilliseconds: wallMilliseconds.subtractingSaturating(boot.since(instant) / 1_000_000))
  }
}

extension Int64 {
  package func addingSaturating(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other > 0 ? .max : .min) : sum
  }

  package func subtractingSaturating(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other < 0 ? .max : .min) : difference
  }

  package func multipliedSaturating(by other: Int64) -> Int64 {
    let (product, overflow) = multipliedReportingOverflow(by: other)
    return overflow ? ((self < 0) == (other < 0) ? .max : .min) : product
  }
}

extension Duration {
  /// The duration in whole nanoseconds, clamped to 64 bits.
  package var inNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    return seconds.multipliedSaturating(by: 1_000_000_000)
      .addingSaturating(attoseconds / 1_000_000_000)
  }
}
