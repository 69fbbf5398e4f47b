import Glibc
import TestSupport
import Testing

@testable import BreakerStore

@Suite struct `The stamp of a directory` {
  private func set(_ path: String, seconds: Int, nanoseconds: Int = 1) throws {
    let time = timespec(tv_sec: seconds, tv_nsec: nanoseconds)
    try #require(unsafe utimensat(AT_FDCWD, path, [time, time], 0) == 0)
  }

  @Test func `is settled once no other change can have the same time`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path
    let now = time(nil)
    for (age, nanoseconds, isSettled) in [
      (10, 1, true), (10, 0, true), (1, 0, false), (-5, 1, false), (-5, 0, false),
    ] {
      try set(path, seconds: now - age, nanoseconds: nanoseconds)
      let stamp = try #require(DirectoryStamp(of: path))
      #expect(stamp.isSettled == isSettled, "\(age) \(nanoseconds)")
    }
  }

  @Test(arguments: [-(1 << 40), 1 << 40, -(1 << 62), 1 << 62, Int.min, .max])
  func `is of use whatever time the directory has`(seconds: Int) throws {
    let directory = try TemporaryDirectory()
    try set(directory.path, seconds: seconds)
    // The file system may hold the time within what it can keep.
    #expect(DirectoryStamp(of: directory.path)?.isSettled != nil)
  }

  @Test func `is another one after each change of a name`() throws {
    let directory = try TemporaryDirectory()
    try set(directory.path, seconds: 1_000)
    let before = DirectoryStamp(of: directory.path)
    try Files.write(directory.file("a"), [1])
    #expect(DirectoryStamp(of: directory.path) != before)
    #expect(DirectoryStamp(of: directory.file("none")) == nil)
  }
}
