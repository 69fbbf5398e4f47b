internal import Glibc

/// Wakes a test when another thread or process changes the files of a directory.
package enum DirectoryWatch {
  /// How long to wait before the test fails.
  private static let patience = Duration.seconds(300)

  /// How long to sleep at most before looking again, in milliseconds.
  ///
  /// SQLite writes a commit to its file first, and shows it to others through memory right after
  /// that, of which the kernel tells nothing.
  private static let longestSleep: Int32 = 50

  /// Waits until a condition holds that depends on the files of a directory, which must exist.
  package static func wait(in directory: String, until isSo: () throws -> Bool) throws {
    let watch = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
    guard watch >= 0 else { throw SupportError("inotify_init1", errno) }
    defer { close(watch) }
    let changes = UInt32(IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_MOVED_TO | IN_DELETE)
    guard unsafe inotify_add_watch(watch, directory, changes) >= 0 else {
      throw SupportError("inotify_add_watch \(directory)", errno)
    }
    let end = ContinuousClock.now + patience
    while try !isSo() {
      guard ContinuousClock.now < end else {
        throw SupportError("nothing in \(directory) is as it should be")
      }
      var event = pollfd(fd: watch, events: Int16(POLLIN), revents: 0)
      unsafe poll(&event, 1, longestSleep)
      var events = [UInt8](repeating: 0, count: 4_096)
      while unsafe read(watch, &events, events.count) > 0 {}
    }
  }
}
