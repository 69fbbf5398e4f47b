import Glibc
import TestSupport
import Testing

@testable import BreakerStore

/// The stamp of a directory, which shows whether a name in it has changed.
@Suite struct DirectoryStampTests {
  /// A stamp that was taken at a second of the wall clock.
  private func stamp(
    changed seconds: Int, _ nanoseconds: Int = 1, taken: Int, monotonic: Int = 500
  ) -> DirectoryStamp {
    let clocks = DirectoryStamp.Clocks(
      wall: timespec(tv_sec: taken, tv_nsec: 2),
      monotonic: timespec(tv_sec: monotonic, tv_nsec: 0))
    return DirectoryStamp(
      of: FileIdentity(device: 1, inode: 2),
      changed: timespec(tv_sec: seconds, tv_nsec: nanoseconds), taken: clocks)
  }

  @Test(arguments: [
    (10, 1, true), (10, 0, true), (1, 1, true), (1, 0, false), (2, 0, false), (0, 1, false),
    (-5, 1, false), (-5, 0, false),
  ])
  func `a directory stamp is conclusive once no other change can have the same time`(
    age: Int, nanoseconds: Int, isConclusive: Bool
  ) {
    #expect(stamp(changed: 1_000, nanoseconds, taken: 1_000 + age).isConclusive == isConclusive)
  }

  @Test(arguments: [-(1 << 40), 1 << 40, -(1 << 62), 1 << 62, Int.min, .max])
  func `a directory stamp works whatever time the directory has`(seconds: Int) {
    let first = stamp(changed: seconds, taken: 1_000)
    let later = stamp(changed: seconds, taken: 1_007, monotonic: 507)
    #expect(first.isConclusive == (seconds < 1_000 && seconds != .min))
    #expect(later.isSame(as: first))
  }

  @Test func `a directory stamp is not trusted once the wall clock has been set`() {
    let first = stamp(changed: 900, taken: 1_000)
    #expect(stamp(changed: 900, taken: 1_009, monotonic: 509).isSame(as: first))
    for taken in [904, 1_003, 2_000, Int.min, .max] {
      #expect(!stamp(changed: 900, taken: taken, monotonic: 504).isSame(as: first), "\(taken)")
    }
  }

  @Test func `a directory stamp differs after a change of a name even if its times are reset`()
    throws
  {
    let directory = try TemporaryDirectory()
    var times = stat()
    #expect(unsafe lstat(directory.path, &times) == 0)
    var before = try #require(DirectoryStamp(of: directory.path))
    while !before.isConclusive { before = try #require(DirectoryStamp(of: directory.path)) }
    try Files.write(directory.file("a"), [1])
    #expect(unsafe utimensat(AT_FDCWD, directory.path, [times.st_atim, times.st_mtim], 0) == 0)
    #expect(try #require(DirectoryStamp(of: directory.path)).isSame(as: before) == false)
    #expect(DirectoryStamp(of: directory.file("none")) == nil)
  }
}
