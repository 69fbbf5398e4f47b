import Glibc
import TestSupport
import Testing

/// A host without the `/proc` that nearly every host has.
@Suite struct BareHostTests {
  private static let withoutProc =
    #"unshare -m sh -c 'mount -t tmpfs none /proc && exec "$0" "$@"'"#

  private static let canHideProc =
    (try? Child.run("/bin/sh", ["-c", "\(withoutProc) true 2>&1"])) != nil

  @Test(
    .timeLimit(.minutes(60)),
    .disabled(if: Memory.isWatched, "a sanitizer reads them"),
    .enabled(if: Self.canHideProc, "needs a user who may mount"))
  func `a command runs on a host that has no proc file system`() throws {
    var cbctl = try CommandLineTool()
    cbctl.prefix = Self.withoutProc
    #expect(try cbctl("run x -- echo one 'two  three' ''").output == "one two  three \n")
    let check = try cbctl("check x")
    #expect(check.code == 0, "\(check.errors)")
    #expect(try cbctl("check").code == 64)
  }

  @Test(
    .timeLimit(.minutes(60)),
    .disabled(if: Memory.isWatched, "a sanitizer reads them"),
    .enabled(if: Self.canHideProc, "needs a user who may mount"),
    arguments: ["metrics", "page"])
  func `a file is replaced on a host that has no proc file system`(command: String) throws {
    var cbctl = try CommandLineTool()
    _ = try cbctl("policy x --set probes=2")
    cbctl.prefix = Self.withoutProc
    let folder = cbctl.directory.file("output")
    try Files.makeDirectory(folder)
    for _ in 1...2 {
      let written = try cbctl("\(command) --output '\(folder)/file'")
      #expect(written.code == 0, "\(written.errors)")
      #expect(Files.names(in: folder).filter { !$0.hasPrefix("..") && $0 != "." } == ["file"])
    }
    let text = String(decoding: try Files.read(folder + "/file"), as: UTF8.self)
    #expect(text.contains("x"))
  }

  @Test(
    .timeLimit(.minutes(60)),
    .disabled(if: Memory.isWatched, "a sanitizer reads them"),
    .enabled(if: Self.canHideProc, "needs a user who may mount"))
  func `a permit has an owner on a host that has no proc file system`() throws {
    var cbctl = try CommandLineTool()
    cbctl.prefix = Self.withoutProc
    let owner = "--owner-pid \(getpid())"
    #expect(try cbctl("acquire x \(owner)").code == 0)
    #expect(try cbctl("acquire x --owner-pid 2147483647").code == 64)
    _ = try cbctl("force x forced_open")
    #expect(try cbctl("acquire x \(owner)").code == 75)
  }
}
