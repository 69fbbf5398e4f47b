internal import BreakerCore

/// What a store says of itself, and what its rows and all words from outside are checked against.
struct StoreHeader: Hashable {
  /// Tells this store from every other; its counters carry it.
  var identity: Int64

  /// Tells what was given out by this store from what was given out before it was restored.
  var lineage: Int64

  /// The boot that this process is in.
  var boot: BootNote

  /// The number of the boot that the store has noted.
  var notedBoot: Int64

  /// Whether the store has noted this process's boot, so that all processes call it by one number.
  var isAgreed: Bool { boot.number == notedBoot }

  /// Reads what the store has noted, and the revision that its next transaction has.
  static func noted(
    on connection: Connection
  ) throws(StoreError) -> (header: StoreHeader, nextRevision: Int64) {
    let found = try connection.statement(.header).first { row in
      let boot = BootNote(
        number: row.integer(2), id: row.integerOrNil(3), bootedAtMilliseconds: row.integer(4),
        seenAt: Instant(nanoseconds: row.integer(5)))
      let header = StoreHeader(
        identity: row.integer(0), lineage: row.integer(1), boot: boot,
        notedBoot: boot.number)
      return (header, row.integer(6))
    }
    guard let found else { throw damaged(connection.path) }
    return found
  }

  /// Reads what the store has noted, and judges whether the host has booted since; writes nothing.
  static func seen(
    on connection: Connection, clock: StoreClock, log: LogFile?
  ) throws(StoreError) -> StoreHeader {
    var header = try noted(on: connection).header
    let seen = clock.sighting
    switch try verdict(noted: header.boot, seen, on: connection, clock: clock, log: log) {
    case .same: break
    case .rebooted:
      // Rows of a store without a note carry the checksum of their boot's id.
      let number = header.boot.number == 0 ? seen.id : nil
      header.boot = BootNote(number: number ?? .random(in: .min ... .max), of: seen)
    case .foreignClock: throw foreignClock(connection.path)
    }
    return header
  }

  /// The same, and notes the boot if it is a new one; waits for other writers until a deadline.
  static func agreed(
    on connection: Connection, clock: StoreClock, log: LogFile?, until deadline: Int64
  ) throws(StoreError) -> StoreHeader {
    var seen = try seen(on: connection, clock: clock, log: log)
    let mayName = seen.boot.id == nil && clock.bootID != nil
    if seen.isAgreed, !mayName { return seen }
    return try connection.waiting(until: deadline) { () throws(StoreError) in
      try connection.write { () throws(StoreError) in
        // Another process may have noted it meanwhile.
        seen = try Self.seen(on: connection, clock: clock, log: log)
        seen.boot.id = seen.boot.id ?? clock.bootID
        seen.notedBoot = seen.boot.number
        try save(seen.boot, on: connection)
        return seen
      }
    }
  }

  /// Writes a note of the boot, inside a transaction of the caller's.
  static func save(_ boot: BootNote, on connection: Connection) throws(StoreError) {
    let note = try connection.prepare(
      "UPDATE store SET boot = ?1, boot_id = ?2, booted_at_ms = ?3, boot_seen_ns = ?4")
    note.bind(1, boot.number)
    note.bind(2, boot.id)
    note.bind(3, boot.bootedAtMilliseconds)
    note.bind(4, boot.seenAt.nanoseconds)
    try note.run()
  }

  /// Makes what was given out until now recognisable, unless another process has done so.
  static func renewLineage(
    _ lineage: Int64, on connection: Connection, until deadline: Int64
  ) throws(StoreError) {
    try connection.waiting(until: deadline) { () throws(StoreError) in
      try connection.write { () throws(StoreError) in
        let renew = try connection.prepare("UPDATE store SET lineage = ?2 WHERE lineage = ?1")
        renew.bind(1, lineage)
        renew.bind(2, .random(in: .min ... .max))
        try renew.run()
      }
    }
  }

  /// What rows are read by where the store cannot say: times of another boot are carried over.
  static func unknown(_ clock: StoreClock) -> StoreHeader {
    let boot = BootNote(number: clock.bootID ?? 0, of: clock.sighting)
    return StoreHeader(identity: 0, lineage: 0, boot: boot, notedBoot: 0)
  }

  private static func verdict(
    noted: BootNote, _ seen: BootSighting, on connection: Connection, clock: StoreClock,
    log: LogFile?
  ) throws(StoreError) -> BootVerdict {
    if noted.number == 0 { return .rebooted }
    // A clock that tests have made says itself which boot it is.
    if !clock.isSystem { return noted.id == seen.id ? .same : .rebooted }
    return try BootVerdict.judge(
      noted: noted, seen: seen, isAttested: { log?.isHeldByOthers(.boot(noted.number)) == true },
      latest: { () throws(StoreError) in
        let query = try connection.prepare(Self.latestInstant)
        query.bind(1, noted.number)
        return Instant(nanoseconds: try query.first { $0.integer(0) } ?? 0)
      })
  }

  /// The latest of the times that lay in the past when they were written.
  private static let latestInstant = """
    SELECT max(
      coalesce(max(streak_started_at_ns), 0), coalesce(max(counted_failure_at_ns), 0),
      coalesce(max(closed_at_ns), 0), coalesce(max(open_until_ns - open_length_ns), 0),
      coalesce((SELECT max(state_since_ns) FROM breaker WHERE state_since_boot = ?1), 0))
    FROM breaker WHERE boot = ?1
    """

  private static func damaged(_ path: String) -> StoreError {
    StoreError(
      .corrupt,
      "the store \(StoreError.visible(path)) has lost the row that says what it is:"
        + " run 'cbctl doctor --repair'")
  }

  private static func foreignClock(_ path: String) -> StoreError {
    StoreError(
      .other,
      "the store \(StoreError.visible(path)) cannot be used: this process is in a time namespace and"
        + " cannot read by how much its clock differs from the host's: mount /proc")
  }
}
