import Glibc
import TestSupport
import Testing

@testable import ControlKit

/// A file that is written aside and then replaces another.
@Suite struct FileReplacementTests {
  /// The flag for a file without a name, and one with which no such file can be opened.
  private static let kinds = [FileReplacement.temporaryFile, O_DIRECTORY]

  private func names(_ directory: TemporaryDirectory) throws -> [Substring] {
    try Child.run("/bin/ls", ["-A", directory.path]).split(separator: "\n")
  }

  @Test(arguments: kinds)
  func `a replacement takes the name of its file only once it is complete`(
    kind: Int32
  ) throws {
    let directory = try TemporaryDirectory()
    let path = directory.file("x.prom")
    for text in ["first", "second"] {
      let before = try? Files.read(path)
      var file = try FileReplacement(of: path, mode: 0o640, kind: kind)
      file.write(text)
      let meanwhile = try? Files.read(path)
      #expect(meanwhile == before)
      #expect(
        try names(directory).filter { $0.hasSuffix(".prom") }.count == (before == nil ? 0 : 1))
      try file.finish()
      #expect(try Files.read(path) == Array(text.utf8))
      #expect(try Files.permissions(of: path).mode == 0o640)
      #expect(try names(directory) == ["x.prom"])
    }
  }

  @Test(.enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"), arguments: kinds)
  func `a replacement leaves nothing behind on a full disk`(kind: Int32) throws {
    let directory = try TemporaryDirectory()
    let disk = try SmallDisk(at: directory.file("disk"), kilobytes: 64)
    var file = try FileReplacement(of: directory.file("disk/x"), mode: 0o644, kind: kind)
    try disk.fill()
    file.write("text")
    #expect(throws: ControlError.self) { try file.finish() }
    disk.makeRoom()
    #expect(try Child.run("/bin/ls", ["-A", directory.file("disk")]) == "")
  }

  @Test(arguments: kinds)
  func `a replacement fails if a directory has taken its name meanwhile`(kind: Int32) throws {
    let directory = try TemporaryDirectory()
    let file = try FileReplacement(of: directory.file("x"), mode: 0o644, kind: kind)
    try Files.makeDirectory(directory.file("x"))
    #expect(throws: ControlError.self) { try file.finish() }
    #expect(try names(directory) == ["x"])
  }
}
