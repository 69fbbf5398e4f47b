/// The evidence that a process has of the boot that it runs in.
package struct BootSighting: Sendable, Hashable {
  /// A checksum of the kernel's boot id; nil if the process cannot read it.
  package var id: Int64?

  /// When the host booted, according to the current wall clock and boot clock.
  package var bootedAtMilliseconds: Int64
  package var now: Instant

  package init(id: Int64?, at now: Moment) {
    self.id = id
    self.now = now.boot
    bootedAtMilliseconds = now.wallMilliseconds.subtractingSaturating(
      now.boot.nanoseconds / 1_000_000)
  }
}

/// A store's note about the latest boot in which it was used.
package struct BootNote: Sendable, Hashable {
  /// The number that identifies the boot in rows; only the store assigns it.
  package var number: Int64

  /// A checksum of the kernel's boot id, from the first process that could read it.
  package var id: Int64?

  /// When the host booted, by the wall clock of the process that wrote the note.
  ///
  /// States that began before the boot are dated relative to this value. The current wall clock
  /// would not do, because setting it would stretch or shrink the time that has passed since then.
  package var bootedAtMilliseconds: Int64

  /// When the note was written.
  package var seenAt: Instant

  package init(number: Int64, id: Int64?, bootedAtMilliseconds: Int64, seenAt: Instant) {
    self.number = number
    self.id = id
    self.bootedAtMilliseconds = bootedAtMilliseconds
    self.seenAt = seenAt
  }

  /// Creates the first note of a boot.
  package init(number: Int64, of sighting: BootSighting) {
    self.init(
      number: number, id: sighting.id, bootedAtMilliseconds: sighting.bootedAtMilliseconds,
      seenAt: sighting.now)
  }
}

/// Whether the host has booted since a store was last used.
///
/// Two processes of one boot must never disagree about this: each would assume that the other's
/// times belong to an earlier boot, and permit calls that the other has stopped. The kernel's boot
/// id alone cannot decide, because a process may be unable to read it, and a container may show a
/// different one.
package enum BootVerdict: Sendable, Hashable {
  case same
  case rebooted

  /// Other processes of this boot are ahead of this process's clock, so it is not the host's clock.
  case foreignClock

  /// How far apart two readings of the same boot can be.
  ///
  /// If two boots began this close together, mistaking one for the other shifts times by no more
  /// than this.
  static let toleranceMilliseconds: Int64 = 2_000

  /// Weighs the evidence, the cheapest first.
  ///
  /// - Parameters:
  ///   - noted: The note of the store.
  ///   - seen: The evidence of this process.
  ///   - isAttested: Whether a process that has used the store since the note was written still
  ///     has it open.
  ///   - latest: The latest instant of the noted boot that the store knows of.
  /// - Returns: The verdict of the evidence.
  /// - Throws: The error of `latest`.
  package static func judge<Failure: Error>(
    noted: BootNote, seen: BootSighting, isAttested: () -> Bool,
    latest: () throws(Failure) -> Instant
  ) throws(Failure) -> BootVerdict {
    if let id = noted.id, id == seen.id { return .same }
    if isAttested() { return seen.now < noted.seenAt ? .foreignClock : .same }
    // Within one boot the clock never goes backwards.
    if seen.now < max(noted.seenAt, try latest()) { return .rebooted }
    let difference = seen.bootedAtMilliseconds.subtractingSaturating(noted.bootedAtMilliseconds)
    if (-toleranceMilliseconds...toleranceMilliseconds).contains(difference) { return .same }
    if noted.id != nil, seen.id != nil { return .rebooted }
    // The evidence is inconclusive. No noted time is ahead of the clock, so an open breaker stays
    // open for at most its full open time. Mistaking a changed wall clock for a reboot could close
    // it early.
    return .same
  }
}
