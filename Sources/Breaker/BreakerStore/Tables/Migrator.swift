internal import BreakerCore
internal import Glibc

/// Brings the tables of a file up to this version, even if other processes start at the same time.
enum Migrator {
  /// "SBRK", which distinguishes a store of ours from any other SQLite file.
  static let applicationID: Int64 = 0x5342_524B

  static var version: Int64 { Int64(Migration.all.count) }

  /// Brings a file up to date, and returns whether there was anything to do.
  static func bringUpToDate(
    _ connection: Connection, lockTimeout: Duration, clock: StoreClock
  ) throws(StoreError) -> Bool {
    if try isSeen(connection, isUpToDate) { return false }
    // For the tables of an earlier version a transaction is enough, so a user who may not create
    // the lock file can upgrade them too.
    if try isSeen(connection, isEarlier) {
      try connection.refuseMoved()
      return try connection.write { () throws(StoreError) in
        if try isUpToDate(connection) { return false }
        try apply(to: connection, clock: clock)
        return true
      }
    }
    // A change of the journal mode does not wait for other processes, as everything else does. The
    // lock makes processes that start at once on an empty file take turns.
    return try StoreLock.held(connection.path, atMost: lockTimeout) { _ throws(StoreError) in
      try connection.refuseMoved()
      if try isUpToDate(connection) { return false }
      // Another process may hold the file, to roll back what a killed creator left.
      let mode = try Patience.retrying(atMost: lockTimeout) { () throws(StoreError) in
        // A file that already has its tables keeps its page size.
        try connection.execute("PRAGMA page_size=\(pageSize)", to: "be brought up to date")
        return try connection.text("PRAGMA journal_mode=WAL")
      }
      guard mode == Connection.demandedJournalMode else {
        throw StoreError(
          .other,
          "the store \(StoreError.visible(connection.path)) cannot use a write-ahead log:"
            + " its journal mode stays \(mode): use a path on a local disk")
      }
      try connection.write { () throws(StoreError) in
        try refuseForeign(connection)
        try apply(to: connection, clock: clock)
      }
      return true
    }
  }

  /// Makes the tables in a database that no other process can see.
  static func begin(_ connection: Connection, clock: StoreClock) throws(StoreError) {
    try connection.execute("PRAGMA page_size=\(pageSize)", to: "be created")
    try connection.write { () throws(StoreError) in try apply(to: connection, clock: clock) }
  }

  /// Makes a new store of such a database, whose tables it empties.
  static func beginAgain(_ connection: Connection, clock: StoreClock) throws(StoreError) {
    try connection.write { () throws(StoreError) in
      let tables = try connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .rows { $0.text(0) ?? "" }
      for table in tables where table != "migration" {
        try connection.execute("DELETE FROM \(table)", to: "be emptied")
      }
      try identify(connection, clock: clock)
    }
  }

  /// A commit writes whole pages and a breaker is a small row, so pages are small.
  private static let pageSize = 1_024

  /// Brings a file up to date on a connection of its own, and leaves it without a log if no other
  /// process has it open.
  static func prepare(
    _ path: String, lockTimeout: Duration, clock: StoreClock
  ) throws(StoreError) -> Bool {
    let connection = try Connection(path: path, lockTimeout: lockTimeout)
    let isNew = try bringUpToDate(connection, lockTimeout: lockTimeout, clock: clock)
    connection.leaveNoLog()
    return isNew
  }

  /// Asks a question about the file; answers false while another process is creating the file.
  ///
  /// A new file stays locked for as long as the disk takes. The caller then waits in line for the
  /// lock.
  private static func isSeen(
    _ connection: Connection, _ question: (Connection) throws(StoreError) -> Bool
  ) throws(StoreError) -> Bool {
    do throws(StoreError) {
      return try question(connection)
    } catch {
      guard error.kind == .busy else { throw error }
      return false
    }
  }

  /// Whether the file has the tables of this version and its write-ahead log.
  ///
  /// A database of another program is refused here, before any lock is taken, so that no lock file
  /// is left beside it. A store in another journal mode gets its log back, like a file that never
  /// had one. That loses nothing, and lets a copy made by `VACUUM INTO` be used at once.
  private static func isUpToDate(_ connection: Connection) throws(StoreError) -> Bool {
    let application = try connection.integer("PRAGMA application_id")
    let found = try connection.integer("PRAGMA user_version")
    guard application == applicationID else {
      try refuseForeign(connection)
      return false
    }
    guard found <= version else {
      throw StoreError(
        .newerVersion,
        "the store \(StoreError.visible(connection.path)) has version \(found), but this program"
          + " knows versions up to \(version): upgrade it; the file was left untouched")
    }
    let mode = try connection.journalMode()
    return found == version && mode == Connection.demandedJournalMode
  }

  /// Whether the file has the tables of an earlier version, and a write-ahead log.
  private static func isEarlier(_ connection: Connection) throws(StoreError) -> Bool {
    let application = try connection.integer("PRAGMA application_id")
    guard application == applicationID else { return false }
    return try connection.text("PRAGMA journal_mode") == "wal"
  }

  /// Refuses a file that holds the tables of another program.
  ///
  /// The tables are counted first. A process that creates a store adds them in the transaction that
  /// also sets the id, so tables that are seen before an id of 0 are another program's.
  private static func refuseForeign(_ connection: Connection) throws(StoreError) {
    let tables = try connection.integer("SELECT count(*) FROM sqlite_schema")
    let application = try connection.integer("PRAGMA application_id")
    if application == applicationID { return }
    guard application == 0, tables == 0 else {
      connection.leaveNoEmptyLog()
      throw StoreError(
        .notAStore,
        "the file \(StoreError.visible(connection.path)) is a database of another program:"
          + " use another path")
    }
  }

  private static func apply(to connection: Connection, clock: StoreClock) throws(StoreError) {
    let now = clock.wallMilliseconds
    // Until the file is ours, its version means nothing.
    let isOurs = try connection.integer("PRAGMA application_id") == applicationID
    let done = isOurs ? try connection.integer("PRAGMA user_version") : 0
    for (index, migration) in Migration.all.enumerated() where Int64(index) >= done {
      try connection.execute(migration.sql, to: "be brought up to date")
      let record = try connection.prepare(
        "INSERT INTO migration (number, name, checksum, applied_at_ms) VALUES (?, ?, ?, ?)")
      record.bind(1, Int64(index) + 1)
      record.bind(2, migration.name)
      record.bind(3, migration.checksum)
      record.bind(4, now)
      try record.run()
    }
    // In the same transaction as the tables. A commit of its own would come before all the tables
    // are in the file, and processes that read meanwhile would keep some of them from getting
    // there.
    if done == 0 { try identify(connection, clock: clock) }
    try connection.execute(
      "PRAGMA application_id=\(applicationID); PRAGMA user_version=\(version)",
      to: "be brought up to date")
  }

  /// Gives a new store its identity, inside the caller's transaction.
  private static func identify(_ connection: Connection, clock: StoreClock) throws(StoreError) {
    let identify = try connection.prepare(
      "INSERT INTO store (id, identity, created_at_ms) VALUES (1, ?, ?)")
    identify.bind(1, Int64.random(in: .min ... .max))
    identify.bind(2, clock.wallMilliseconds)
    try identify.run()
    try StoreHeader.begin(on: connection, clock: clock)
  }
}

/// A step that creates or changes a store's tables; a released one never changes.
struct Migration: Sendable {
  /// The name of its file in the folder `migrations`.
  let name: String
  let bytes: [UInt8]

  var sql: String { String(decoding: bytes, as: UTF8.self) }

  /// Distinguishes an edited migration from the one that a store was created with.
  var checksum: Int64 { Checksum.of(bytes) }

  /// Every migration, oldest first; the n-th creates version n.
  static let all: [Migration] = [
    Migration(name: "0001_create_breakers.sql", bytes: PackageResources._001_create_breakers_sql),
    Migration(name: "0002_join_fleets.sql", bytes: PackageResources._002_join_fleets_sql),
  ]
}
