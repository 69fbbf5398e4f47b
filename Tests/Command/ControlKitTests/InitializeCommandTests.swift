import Glibc
import TestSupport
import Testing

/// The command `init`, which creates stores for one or for several users.
struct InitializeCommandTests {
  @Test func `init reports an existing directory that keeps the group out`() {
    let bench = CommandBench()
    let answer = bench("init", "--mode", "660")
    #expect(answer.code == 0)
    #expect(
      answer.errors == "cbctl: the group cannot write to \(bench.folder)/, "
        + "which already existed: run chmod g+rwxs \(bench.folder)/\n")
  }

  @Test func `init makes a store that its group may use, also without a mode`() throws {
    let bench = CommandBench()
    let folder = "\(bench.folder)/shared"
    guard unsafe getgrgid(getegid()) != nil else { return }
    let group = "\(getegid())"
    let answer = bench("--store", "\(folder)/breakers.db", "init", "--group", group)
    #expect(answer.code == 0 && answer.errors.isEmpty, "\(answer)")
    #expect(try Files.permissions(of: folder).mode & 0o777 == 0o770)
    #expect(try Files.permissions(of: "\(folder)/breakers.db").mode & 0o777 == 0o660)
    Child.shell("rm -rf '\(folder)'")
    #expect(bench("init", "--group", group).errors.contains("the group cannot write to "))
  }

  @Test(.enabled(if: geteuid() == 0, "needs root, to give a directory to a group"))
  func `init advises chgrp only if the group cannot use the directory otherwise`() {
    let bench = CommandBench()
    unsafe chown(bench.folder, 0, 0)
    unsafe chmod(bench.folder, 0o1777)
    #expect(bench("init", "--mode", "660", "--group", "daemon").errors.isEmpty)
    let closed = CommandBench()
    unsafe chown(closed.folder, 0, 0)
    unsafe chmod(closed.folder, 0o770)
    #expect(
      closed("init", "--mode", "660", "--group", "daemon").errors
        .hasSuffix("run chgrp daemon \(closed.folder)/ && chmod g+rwxs \(closed.folder)/\n"))
  }

  @Test func `the advice of init removes no rights and can be copied into a shell`() {
    let bench = CommandBench()
    let folder = "\(bench.folder)/it's\u{301} $HOME"
    unsafe mkdir(folder, 0)
    unsafe chmod(folder, 0o1770)
    let store = "\(folder)/breakers.db"
    let answer = bench("--store", store, "init", "--mode", "666")
    #expect(answer.errors.contains("others cannot write"))
    let command = answer.errors.dropLast().split(separator: ": run ").last.map { String($0) } ?? ""
    #expect(Child.shell(command) == 0, "\(command)")
    var status = stat()
    unsafe stat(folder, &status)
    #expect(status.st_mode & 0o7777 == 0o1777)
    #expect(bench("--store", "\(folder)/other.db", "init", "--mode", "666").errors.isEmpty)
    Child.shell("rm -rf '\(bench.folder)'")
  }

  @Test func `init accepts a directory that all users of the store may write to`() {
    for (mode, files) in [(0o700, "600"), (0o770, "660"), (0o777, "666")] as [(mode_t, String)] {
      let bench = CommandBench()
      unsafe chmod(bench.folder, mode)
      #expect(bench("init", "--mode", files).errors.isEmpty)
    }
    let bench = CommandBench()
    unsafe chmod(bench.folder, 0o770)
    #expect(bench("init", "--mode", "666").errors.contains("others cannot write"))
  }

  @Test func `an empty file is not a store until it is used as one`() throws {
    let bench = CommandBench()
    try Files.write(bench.path, [])
    #expect(bench("status").errors.contains("no store yet"))
    #expect(bench("check", "api").code == 69)
    #expect(try Files.read(bench.path).isEmpty)
    #expect(bench.files == ["breakers.db"])
    let made = bench("init", "--mode", "600")
    #expect(made.output.hasSuffix(": the store was created\n"))
    #expect(
      made.errors
        == "cbctl: --mode and --group were not applied: the file already exists: use chmod and chgrp\n"
    )
    #expect(bench("init").output.hasSuffix(": the store already exists\n"))
  }
}
