internal import BreakerCore

/// A store's description of itself, against which rows and outside input are checked.
struct StoreHeader: Hashable {
  /// Distinguishes this store from every other; its counters carry it.
  var identity: Int64

  /// Distinguishes what this store has issued from what was issued before it was copied.
  var lineage: Int64

  /// The boot that this process runs in.
  var boot: BootNote

  /// The number of the boot that the store has noted.
  var notedBoot: Int64

  /// The inode number of the file in which the lineage was drawn, and of the file that is open.
  var fileOfLineage: Int64
  var file: Int64

  /// Whether a store that this process saw come to an end has reappeared as it was before.
  var isLost = false

  /// Whether the store is a copy, whose lineage must be renewed.
  var isCopy: Bool { fileOfLineage != file || isLost }

  /// Whether the store has noted everything that processes must agree on.
  var isAgreed: Bool { boot.number == notedBoot && !isCopy }

  /// A process's contribution when it agrees with a store on its header.
  struct Terms {
    var clock: StoreClock

    /// The log, which other processes have marked.
    var log: LogFile?

    /// The inode number of the file that is open.
    var file: Int64

    /// The lineages of stores that this process has seen come to an end.
    var lost: Set<Int64> = []
  }

  /// Reads the notes of the store, and the revision of its next transaction.
  static func noted(
    on connection: Connection
  ) throws(StoreError) -> (header: StoreHeader, nextRevision: Int64) {
    let found = try connection.statement(.header).first { row in
      let boot = BootNote(
        number: row.integer(3), id: row.integerOrNil(4), bootedAtMilliseconds: row.integer(5),
        seenAt: Instant(nanoseconds: row.integer(6)))
      let header = StoreHeader(
        identity: row.integer(0), lineage: row.integer(1), boot: boot, notedBoot: boot.number,
        fileOfLineage: row.integer(2), file: row.integer(2))
      return (header, row.integer(7))
    }
    guard let found else { throw damaged(connection.path) }
    return found
  }

  /// The lineage that a store's file has without its log; nil if it cannot be read.
  static func lineage(ofFileAlone path: String) -> Int64? {
    do throws(StoreError) {
      let connection = try Connection(
        reading: path, way: Connection.immutable, lockTimeout: .zero)
      let lineage = try connection.integer("SELECT lineage FROM store")
      return lineage == 0 ? nil : lineage
    } catch {
      return nil
    }
  }

  /// Reads the store's header, and judges whether it is a copy and whether the host has rebooted.
  ///
  /// This writes nothing.
  static func seen(on connection: Connection, _ terms: Terms) throws(StoreError) -> StoreHeader {
    var header = try noted(on: connection).header
    header.file = terms.file
    header.isLost = terms.lost.contains(header.lineage)
    let seen = terms.clock.sighting
    switch try verdict(noted: header.boot, seen, on: connection, terms) {
    case .same: break
    case .rebooted:
      // In a store without a note, rows carry the checksum of their boot's id.
      let number = header.boot.number == 0 ? seen.id : nil
      header.boot = BootNote(number: number ?? drawn(), of: seen)
    case .foreignClock: throw foreignClock(connection.path)
    }
    return header
  }

  /// Whether this process knows something that the store has yet to note.
  func hasNews(for clock: StoreClock) -> Bool {
    !isAgreed || (boot.id == nil && clock.bootID != nil)
  }

  /// Reads and judges in a transaction, and notes what is new; waits for writers until a deadline.
  static func agreed(
    on connection: Connection, _ terms: Terms, until deadline: Int64
  ) throws(StoreError) -> StoreHeader {
    try Patience.bounded(by: deadline) { () throws(StoreError) in
      try connection.write { () throws(StoreError) in
        // Another process may have noted it since this one read the header.
        var seen = try seen(on: connection, terms)
        seen.boot.id = seen.boot.id ?? terms.clock.bootID
        seen.notedBoot = seen.boot.number
        if seen.isCopy {
          seen.lineage = drawn()
          // From this commit on the log belongs to a lineage that the file alone does not have yet.
          try terms.log?.forgetOrigin()
        }
        seen.fileOfLineage = seen.file
        seen.isLost = false
        try seen.save(on: connection)
        return seen
      }
    }
  }

  /// Writes the header of a new store, inside the caller's transaction.
  static func begin(on connection: Connection, clock: StoreClock) throws(StoreError) {
    var header = StoreHeader.unknown(clock)
    header.boot.number = drawn()
    header.lineage = drawn()
    header.fileOfLineage = Int64(
      bitPattern: StoreFile.identity(of: connection.path)?.inode ?? 0)
    try header.save(on: connection)
  }

  private func save(on connection: Connection) throws(StoreError) {
    let note = try connection.prepare(
      """
      UPDATE store SET lineage = ?1, lineage_file = ?2, boot = ?3, boot_id = ?4, booted_at_ms = ?5,
        boot_seen_ns = ?6
      """)
    note.bind(1, lineage)
    note.bind(2, fileOfLineage)
    note.bind(3, boot.number)
    note.bind(4, boot.id)
    note.bind(5, boot.bootedAtMilliseconds)
    note.bind(6, boot.seenAt.nanoseconds)
    try note.run()
  }

  /// A random number that no store has had; never 0, which stands for none.
  private static func drawn() -> Int64 { .random(in: 1 ... .max) }

  var isUnknown: Bool { notedBoot == 0 }

  /// The header for reading rows if the store's is not known; it carries their times over.
  static func unknown(_ clock: StoreClock) -> StoreHeader {
    let boot = BootNote(number: clock.bootID ?? 0, of: clock.sighting)
    return StoreHeader(
      identity: 0, lineage: 0, boot: boot, notedBoot: 0, fileOfLineage: 0, file: 0)
  }

  private static func verdict(
    noted: BootNote, _ seen: BootSighting, on connection: Connection, _ terms: Terms
  ) throws(StoreError) -> BootVerdict {
    if noted.number == 0 { return .rebooted }
    // A clock that a test has created says itself which boot it is.
    if !terms.clock.isSystem { return noted.id == seen.id ? .same : .rebooted }
    return try BootVerdict.judge(
      noted: noted, seen: seen,
      isAttested: { terms.log?.isHeldByOthers(.boot(noted.number)) == true },
      latest: { () throws(StoreError) in
        let query = try connection.prepare(Self.latestInstant)
        query.bind(1, noted.number)
        return Instant(nanoseconds: try query.first { $0.integer(0) } ?? 0)
      })
  }

  /// The latest of the times that were in the past when they were written.
  private static let latestInstant = """
    SELECT max(
      coalesce(max(streak_started_at_ns), 0), coalesce(max(counted_failure_at_ns), 0),
      coalesce(max(closed_at_ns), 0), coalesce(max(suspected_at_ns), 0), coalesce(max(recovered_at_ns), 0),
      coalesce(max(open_until_ns - open_length_ns), 0),
      coalesce((SELECT max(state_since_ns) FROM breaker WHERE state_since_boot = ?1), 0))
    FROM breaker WHERE boot = ?1
    """

  private static func damaged(_ path: String) -> StoreError {
    StoreError(
      .corrupt,
      "the store \(StoreError.visible(path)) has lost the row that identifies it:"
        + " run 'cbctl doctor --repair'")
  }

  private static func foreignClock(_ path: String) -> StoreError {
    StoreError(
      .other,
      "the store \(StoreError.visible(path)) cannot be used: this process is in a time namespace and"
        + " cannot read how far its clock is from the host's: mount /proc")
  }
}
