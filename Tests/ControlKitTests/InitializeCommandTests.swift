import Glibc
import TestSupport
import Testing

/// Stores that are made for several users.
struct InitializeCommandTests {
  @Test func `a directory that was there and keeps the group out is told`() {
    let bench = Bench()
    let answer = bench("init", "--mode", "660")
    #expect(answer.code == 0)
    #expect(
      answer.errors == "cbctl: the group cannot write to \(bench.folder)/, "
        + "which was there already: run 'chmod 2770 \(bench.folder)/'\n")
  }

  @Test func `a directory that all who share may write to is not talked about`() {
    for (mode, files) in [(0o700, "600"), (0o770, "660"), (0o777, "666")] as [(mode_t, String)] {
      let bench = Bench()
      unsafe chmod(bench.folder, mode)
      #expect(bench("init", "--mode", files).errors.isEmpty)
    }
    let bench = Bench()
    unsafe chmod(bench.folder, 0o770)
    #expect(bench("init", "--mode", "666").errors.contains("others cannot write"))
  }

  @Test func `an empty file is no store until somebody uses it as one`() throws {
    let bench = Bench()
    try Files.write(bench.path, [])
    #expect(bench("status").errors.contains("no store yet"))
    #expect(bench("check", "api").code == 69)
    #expect(try Files.read(bench.path).isEmpty)
    #expect(bench.files == ["breakers.db"])
    let made = bench("init", "--mode", "600")
    #expect(made.output.hasSuffix(": the store is made\n"))
    #expect(
      made.errors
        == "cbctl: --mode and --group were not applied: the file has its own: use chmod and chgrp\n"
    )
    #expect(bench("init").output.hasSuffix(": the store was there already\n"))
  }
}
