import CSQLite
import Glibc

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
