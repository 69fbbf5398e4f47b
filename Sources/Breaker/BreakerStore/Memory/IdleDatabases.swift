internal import BreakerCore

/// Databases in memory that no storage uses any more, for the storages to come.
///
/// SQLite takes a millisecond to create the tables and to prepare the statements, and much less to empty them. A
/// test of a policy would take five times as long.
final class IdleDatabases: Sendable {
  static let shared = IdleDatabases()

  /// As many as a process's tests use at the same time on a small machine; each takes about 200 kilobytes.
  private static let most = 4

  private let idle = Guarded<[Connection]>([])

  /// A database with the empty tables of a new store.
  func take(clock: StoreClock) throws(StoreError) -> Connection {
    // A child of a fork may find the lock held forever, and then creates a database.
    if let known = idle.withLockIfFree({ $0.popLast() }) ?? nil {
      try Migrator.beginAgain(known, clock: clock)
      return known
    }
    let made = try Connection.inMemory()
    try Migrator.begin(made, clock: clock)
    return made
  }

  func giveBack(_ database: Connection) {
    _ = idle.withLockIfFree { if $0.count < Self.most { $0.append(database) } }
  }
}
