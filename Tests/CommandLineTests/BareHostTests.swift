import TestSupport
import Testing

/// A host that lacks what nearly every host has.
@Suite struct `On a bare host` {
  private static let withoutProc =
    #"unshare -m sh -c 'mount -t tmpfs none /proc && exec "$0" "$@"'"#

  private static let canHideProc =
    (try? Child.run("/bin/sh", ["-c", "\(withoutProc) true 2>&1"])) != nil

  @Test(
    .timeLimit(.minutes(10)),
    .disabled(if: Memory.isWatched, "a sanitizer reads them"),
    .enabled(if: Self.canHideProc, "needs a user who may mount"))
  func `a command runs without the files of the kernel`() throws {
    var cbctl = try CommandLineTool()
    cbctl.prefix = Self.withoutProc
    #expect(try cbctl("run x -- echo one 'two  three' ''").output == "one two  three \n")
    let check = try cbctl("check x")
    #expect(check.code == 0, "\(check.errors)")
    #expect(try cbctl("check").code == 64)
  }

  @Test(
    .timeLimit(.minutes(10)),
    .disabled(if: Memory.isWatched, "a sanitizer reads them"),
    .enabled(if: Self.canHideProc, "needs a user who may mount"),
    arguments: ["metrics", "page"])
  func `a file is replaced without the files of the kernel`(command: String) throws {
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
}

/// Bytes that are no text, where the path of the store comes from.
@Suite struct `A path that is not UTF-8` {
  private let cbctl: CommandLineTool
  private static let name = #"$(printf 'caf\351')"#

  init() throws {
    cbctl = try CommandLineTool()
  }

  private func expectRefusal(of source: String, store: String = "", by cbctl: CommandLineTool)
    throws
  {
    let commands = [
      "status", "init", "doctor", "doctor --repair", "policy q", "trip q", "watch",
      "history --follow", "acquire q", "report cb2.1.1.1.0.0.q success",
    ]
    for command in commands {
      let result = try cbctl(command + store)
      #expect(result.code == 69, "\(command)")
      #expect(result.output.isEmpty, "\(command)")
      #expect(result.errors.contains(source), "\(command): \(result.errors)")
      #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)")
    }
    let run = try cbctl("run q\(store) -- echo ran")
    #expect(run.code == 0)
    #expect(run.output == "ran\n")
    #expect(run.errors.contains(source), "\(run.errors)")
    #expect(try cbctl("run q\(store) --on-store-failure fail -- true").code == 69)
  }

  @Test(.timeLimit(.minutes(10)))
  func `is refused where the environment names it, and no other is used`() throws {
    var cbctl = cbctl
    cbctl.prefix = #"env SHARED_BREAKER_STORE="\#(cbctl.directory.path)/\#(Self.name)/x.db""#
    try expectRefusal(of: "$SHARED_BREAKER_STORE is not UTF-8", by: cbctl)
    #expect(try Child.run("/bin/ls", [cbctl.directory.path]).contains("caf") == false)
  }

  @Test(.timeLimit(.minutes(10)))
  func `is refused where the working directory has it, and no other is made`() throws {
    var cbctl = cbctl
    let folder = #""\#(cbctl.directory.path)/\#(Self.name)""#
    cbctl.prefix = "true; mkdir -p \(folder) && cd \(folder) &&"
    try expectRefusal(of: "the path is not UTF-8", store: " --store x.db", by: cbctl)
    let left = try Child.run("/bin/sh", ["-c", "find '\(cbctl.directory.path)' -name 'x.db*'"])
    #expect(left.isEmpty)
  }
}
