import CSQLite
import Glibc

/// How a writer of the raw store waits for the others.
enum RawWaiting {
  /// SQLite's own way.
  case timeout

  /// As the library waits; a change of its way belongs here too, so that the floor stays its floor.
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
