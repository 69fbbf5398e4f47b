import TestSupport
import Testing

/// A host that lacks what nearly every host has.
@Suite struct `On a bare host` {
  private static let withoutProc =
    #"unshare -m sh -c 'mount -t tmpfs none /proc && exec "$0" "$@"'"#

  private static let canHideProc =
    (try? Child.run("/bin/sh", ["-c", "\(withoutProc) true 2>&1"])) != nil

  @Test(
    .timeLimit(.minutes(5)),
    .enabled(if: Self.canHideProc, "needs a user who may mount"))
  func `a command runs without the files of the kernel`() throws {
    var cbctl = try CommandLineTool()
    cbctl.prefix = Self.withoutProc
    #expect(try cbctl("run x -- echo one 'two  three' ''").output == "one two  three \n")
    let check = try cbctl("check x")
    #expect(check.code == 0, "\(check.errors)")
    #expect(try cbctl("check").code == 64)
  }
}
