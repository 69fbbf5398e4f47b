import CSQLite
import Glibc

/// The least that a shared counter in SQLite can cost: one row, one transaction, no Swift between.
@safe final class RawStore {
  /// How a writer waits for the others.
  enum Waiting: String {
    /// SQLite's own way.
    case timeout

    /// Short random pauses, as the library does.
    case pauses
  }

  private let handle: OpaquePointer
  private let statements: [OpaquePointer]

  init(_ path: String, waiting: Waiting) throws {
    var opened: OpaquePointer?
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
    guard unsafe sqlite3_open_v2(path, &opened, flags, nil) == SQLITE_OK,
      let opened = unsafe opened
    else { throw BenchError("cannot open \(path)") }
    unsafe handle = opened
    unsafe sqlite3_busy_timeout(opened, 10_000)
    let setUp = """
      PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
      CREATE TABLE IF NOT EXISTS b (id INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT;
      INSERT OR IGNORE INTO b VALUES (1, 0)
      """
    guard unsafe sqlite3_exec(opened, setUp, nil, nil, nil) == SQLITE_OK else {
      throw BenchError("cannot set up \(path)")
    }
    if waiting == .pauses {
      unsafe sqlite3_busy_handler(
        opened,
        { _, _ in
          usleep(UInt32.random(in: 50...500))
          return 1
        }, nil)
    }
    unsafe statements = try [
      "BEGIN IMMEDIATE", "UPDATE b SET n = n + 1 WHERE id = 1", "COMMIT",
    ].map { sql in
      var statement: OpaquePointer?
      guard unsafe sqlite3_prepare_v2(opened, sql, -1, &statement, nil) == SQLITE_OK,
        let statement = unsafe statement
      else { throw BenchError("cannot prepare \(sql)") }
      return unsafe statement
    }
  }

  deinit {
    unsafe statements.forEach { unsafe sqlite3_finalize($0) }
    unsafe sqlite3_close_v2(handle)
  }

  func increment() throws {
    for index in unsafe statements.indices {
      let code = unsafe sqlite3_step(statements[index])
      unsafe sqlite3_reset(statements[index])
      guard code == SQLITE_DONE else { throw BenchError("SQLite said \(code)") }
    }
  }
}

struct BenchError: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}
