internal import CSQLite
internal import Glibc

/// Reads and changes the file of a store directly, without any of the library's code.
package enum Database {
  /// Runs SQL and returns the rows it selects, as text.
  @discardableResult
  package static func rows(_ path: String, _ sql: String) throws -> [[String]] {
    var opened: OpaquePointer?
    let code = unsafe sqlite3_open_v2(path, &opened, SQLITE_OPEN_READWRITE, nil)
    defer { unsafe sqlite3_close_v2(opened) }
    guard code == SQLITE_OK, let database = unsafe opened else {
      throw SupportError("\(path) cannot be opened: \(code)")
    }
    unsafe sqlite3_busy_timeout(database, 1_800_000)
    let rows = Rows()
    let context = unsafe Unmanaged.passUnretained(rows).toOpaque()
    func run() -> Int32 {
      unsafe sqlite3_exec(
        database, sql,
        { context, count, values, _ in
          guard let context = unsafe context, let values = unsafe values else { return 0 }
          let rows = unsafe Unmanaged<Rows>.fromOpaque(context).takeUnretainedValue()
          rows.all.append(
            (0..<Int(count)).map { column in
              unsafe values[column].map { unsafe String(cString: $0) } ?? "NULL"
            })
          return 0
        }, context, nil)
    }
    let deadline = ContinuousClock.now + .seconds(1_800)
    var result = run()
    // A change of the journal mode does not wait, and a child that another test is just starting holds
    // the locks of its parent's open files until its exec.
    while result == SQLITE_BUSY, rows.all.isEmpty, ContinuousClock.now < deadline {
      sqlite3_sleep(1)
      result = run()
    }
    guard result == SQLITE_OK else {
      throw unsafe SupportError("\(sql): \(String(cString: sqlite3_errmsg(database)))")
    }
    return rows.all
  }

  /// Moves the log into the file, and removes the log and its index as SQLite does.
  ///
  /// SQLite leaves them while another connection is open. A child that another test is just starting keeps the files of
  /// its parent open until its exec.
  package static func fold(_ path: String) throws {
    let deadline = ContinuousClock.now + .seconds(1_800)
    repeat {
      try rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    } while unsafe access(path + "-wal", F_OK) == 0 && ContinuousClock.now < deadline
  }

  /// The first column of the only row that is selected.
  package static func value(_ path: String, _ sql: String) throws -> String {
    try rows(path, sql).first?.first ?? ""
  }

  /// The number of migrations that have been applied.
  package static func migrations(_ path: String) throws -> Int {
    Int(try value(path, "SELECT count(*) FROM migration")) ?? -1
  }

  /// The result of SQLite's integrity check; "ok" if the file is sound.
  package static func integrity(_ path: String) throws -> String {
    try value(path, "PRAGMA integrity_check")
  }

  /// How often a breaker went from one state to another.
  package static func transitions(
    _ path: String, from: String, to: String, of name: String = "api"
  ) throws -> Int {
    let sql = """
      SELECT count(*) FROM event WHERE kind = 0 AND name = '\(name)'
        AND from_word = '\(from)' AND to_word = '\(to)'
      """
    return Int(try value(path, sql)) ?? -1
  }

  private final class Rows {
    var all: [[String]] = []
  }
}
