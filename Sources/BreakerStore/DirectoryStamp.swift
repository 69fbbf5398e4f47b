internal import Glibc

/// What changes when a name of a directory comes, goes or is given to another file.
struct DirectoryStamp: Hashable {
  private let identity: FileIdentity
  private let seconds: Int
  private let nanoseconds: Int

  init?(of path: String) {
    var status = stat()
    // Given as it is, a text would be copied each time.
    guard unsafe path.withCString({ unsafe stat($0, &status) }) == 0 else { return nil }
    identity = FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    seconds = status.st_mtim.tv_sec
    nanoseconds = status.st_mtim.tv_nsec
  }

  /// Whether any change from now on will be told from the latest one.
  ///
  /// File systems take their times from a clock that moves in steps, some in whole seconds, so two
  /// changes that follow closely may have the same.
  var isSettled: Bool {
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    let passed = now.tv_sec.subtractingReportingOverflow(seconds)
    guard !passed.overflow, passed.partialValue < 3 else { return passed.partialValue > 0 }
    guard passed.partialValue >= 0, nanoseconds != 0 else { return false }
    return passed.partialValue * 1_000_000_000 + now.tv_nsec - nanoseconds > 50_000_000
  }
}
