import CSQLite
import Glibc

/// The least that a shared counter in SQLite can cost: one row, one transaction, and little Swift.
@safe final class RawStore {
  private let handle: OpaquePointer
  private let update: [OpaquePointer]
  private let select: OpaquePointer

  /// Opens or creates the store; with SQLite's page size if none is given.
  init(_ path: String, waiting: RawWaiting, pageSize: Int? = nil) throws {
    let opened = unsafe try Self.open(path)
    unsafe handle = opened
    unsafe sqlite3_busy_timeout(opened, 10_000)
    let setUp = """
      PRAGMA page_size=\(pageSize ?? 4_096); PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
      CREATE TABLE IF NOT EXISTS b (id INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT;
      INSERT OR IGNORE INTO b VALUES (1, 0)
      """
    guard unsafe sqlite3_exec(opened, setUp, nil, nil, nil) == SQLITE_OK else {
      throw BenchError("cannot set up \(path)")
    }
    unsafe waiting.install(on: opened)
    unsafe update = try [
      "BEGIN IMMEDIATE", "UPDATE b SET n = n + 1 WHERE id = 1", "COMMIT",
    ].map { unsafe try Self.prepare($0, on: opened) }
    unsafe select = try Self.prepare("SELECT n FROM b WHERE id = 1", on: opened)
  }

  deinit {
    unsafe (update + [select]).forEach { unsafe sqlite3_finalize($0) }
    unsafe sqlite3_close_v2(handle)
  }

  private static func open(_ path: String) throws -> OpaquePointer {
    var opened: OpaquePointer?
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
    guard unsafe sqlite3_open_v2(path, &opened, flags, nil) == SQLITE_OK,
      let opened = unsafe opened
    else { throw BenchError("cannot open \(path)") }
    return unsafe opened
  }

  private static func prepare(_ sql: String, on handle: OpaquePointer) throws -> OpaquePointer {
    var statement: OpaquePointer?
    guard unsafe sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK,
      let statement = unsafe statement
    else { throw BenchError("cannot prepare \(sql)") }
    return unsafe statement
  }

  /// Changes the row in one transaction.
  func increment() throws {
    for index in unsafe update.indices {
      let code = unsafe sqlite3_step(update[index])
      unsafe sqlite3_reset(update[index])
      guard code == SQLITE_DONE else { throw BenchError("SQLite said \(code)") }
    }
  }

  /// Reads the row in one query.
  func read() throws {
    let code = unsafe sqlite3_step(select)
    unsafe sqlite3_reset(select)
    guard code == SQLITE_ROW else { throw BenchError("SQLite said \(code)") }
  }

  /// Opens a store's file, and reads from it once; the connection stays open.
  static func readOnce(_ path: String) throws {
    let statement = unsafe try prepare("SELECT name FROM breaker", on: try open(path))
    guard unsafe sqlite3_step(statement) == SQLITE_ROW else { throw BenchError("no row") }
    unsafe sqlite3_finalize(statement)
  }

  /// The page size of a file.
  static func pageSize(of path: String) throws -> Int {
    let handle = unsafe try open(path)
    defer { unsafe sqlite3_close_v2(handle) }
    let statement = unsafe try prepare("PRAGMA page_size", on: handle)
    defer { unsafe sqlite3_finalize(statement) }
    guard unsafe sqlite3_step(statement) == SQLITE_ROW else {
      throw BenchError("cannot read the page size of \(path)")
    }
    return Int(unsafe sqlite3_column_int64(statement, 0))
  }
}

/// How a writer of the raw store waits for other writers.
enum RawWaiting {
  /// Waits as SQLite does by itself.
  case timeout

  /// Waits as the library does. Change both together, so that this stays the library's floor.
  case likeLibrary

  func install(on handle: OpaquePointer) {
    switch self {
    case .timeout:
      unsafe sqlite3_busy_timeout(handle, 10_000)
    case .likeLibrary:
      unsafe sqlite3_busy_handler(
        handle,
        { _, _ in
          usleep(UInt32.random(in: 150...1_000))
          return 1
        }, nil)
    }
  }
}
