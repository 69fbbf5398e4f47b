internal import Glibc

/// Changes when a name in a directory is added, removed or given to another file.
///
/// It is the directory's change time, which no program can set. The modification time would not do,
/// because `cp -a`, `rsync -a` and `touch -d` restore it.
struct DirectoryStamp {
  private let identity: FileIdentity
  private let seconds: Int
  private let nanoseconds: Int
  private let taken: Clocks

  /// The wall clock, from which a file system takes its times, and what shows that it has been set.
  struct Clocks {
    var wall: timespec

    /// How far the wall clock is ahead of the clock that nobody can set, in nanoseconds.
    var lead: Int

    init(wall: timespec, monotonic: timespec) {
      self.wall = wall
      lead =
        (wall.tv_sec &- monotonic.tv_sec) &* 1_000_000_000 &+ wall.tv_nsec &- monotonic.tv_nsec
    }

    /// The clocks now, read from memory without a system call.
    static var now: Clocks {
      var wall = timespec()
      var monotonic = timespec()
      unsafe clock_gettime(CLOCK_REALTIME_COARSE, &wall)
      unsafe clock_gettime(CLOCK_MONOTONIC_COARSE, &monotonic)
      return Clocks(wall: wall, monotonic: monotonic)
    }
  }

  init?(of path: String) {
    var status = stat()
    // Passed directly, a string would be copied at each call.
    guard unsafe path.withCString({ unsafe stat($0, &status) }) == 0 else { return nil }
    self.init(
      of: FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)),
      changed: status.st_ctim, taken: .now)
  }

  init(of identity: FileIdentity, changed: timespec, taken: Clocks) {
    self.identity = identity
    seconds = changed.tv_sec
    nanoseconds = changed.tv_nsec
    self.taken = taken
  }

  /// Whether no name has changed since an earlier stamp, which must have been conclusive.
  func isSame(as earlier: DirectoryStamp) -> Bool {
    identity == earlier.identity && seconds == earlier.seconds
      && nanoseconds == earlier.nanoseconds
      // After the clock is set back, a change can get the time of an earlier one.
      && (taken.lead &- earlier.taken.lead).magnitude < UInt(Self.longestStep / 2)
  }

  /// Whether any later change will be distinguishable from the latest one.
  ///
  /// File systems take their times from a clock that moves in steps, some of a whole second, so two
  /// changes in quick succession may have the same time.
  var isConclusive: Bool {
    let passed = taken.wall.tv_sec.subtractingReportingOverflow(seconds)
    guard !passed.overflow, passed.partialValue < 3 else { return passed.partialValue > 0 }
    guard passed.partialValue >= 0, nanoseconds != 0 else { return false }
    return passed.partialValue * 1_000_000_000 + taken.wall.tv_nsec - nanoseconds
      > Self.longestStep
  }

  /// The longest step, in nanoseconds, of a clock that does not move in whole seconds.
  private static let longestStep = 50_000_000
}
