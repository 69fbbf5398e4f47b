internal import Glibc

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
