import Glibc
import TestSupport
import Testing

@testable import ControlKit

@Suite struct `A file that replaces another` {
  /// Where a file without a name can be had, and where it cannot: a directory opens for nobody.
  private static let kinds = [FileReplacement.temporaryFile, O_DIRECTORY]

  private func names(_ directory: TemporaryDirectory) throws -> [Substring] {
    try Child.run("/bin/ls", ["-A", directory.path]).split(separator: "\n")
  }

  @Test(arguments: kinds)
  func `is there once it is complete, and has no name for others until then`(
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
  func `leaves nothing where it has no room`(kind: Int32) throws {
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
  func `gives its place to a directory that has come meanwhile`(kind: Int32) throws {
    let directory = try TemporaryDirectory()
    let file = try FileReplacement(of: directory.file("x"), mode: 0o644, kind: kind)
    try Files.makeDirectory(directory.file("x"))
    #expect(throws: ControlError.self) { try file.finish() }
    #expect(try names(directory) == ["x"])
  }
}
