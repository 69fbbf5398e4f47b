internal import CSQLite
internal import Glibc

/// A connection without any of the library's code that holds a file until it is released.
@safe package final class Holder {
  private let handle: OpaquePointer

  /// Runs SQL such as `BEGIN IMMEDIATE` on a connection that stays open.
  package init(_ path: String, _ sql: String) throws {
    var opened: OpaquePointer?
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
    let code = unsafe sqlite3_open_v2(path, &opened, flags, nil)
    guard code == SQLITE_OK, let opened = unsafe opened else {
      unsafe sqlite3_close_v2(opened)
      throw SupportError("\(path) cannot be opened: \(code)")
    }
    unsafe handle = opened
    let result = unsafe sqlite3_exec(handle, sql, nil, nil, nil)
    guard result == SQLITE_OK else { throw SupportError("\(sql): \(result)") }
  }

  deinit { unsafe sqlite3_close_v2(handle) }
}

/// The lock of flock(2) on a file, as any program that can open it may take it, until it is released.
package final class FileLock {
  private let descriptor: Int32

  package init(_ path: String) throws {
    descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0, flock(descriptor, LOCK_EX) == 0 else {
      throw SupportError("flock \(path)", errno)
    }
  }

  deinit { close(descriptor) }
}
