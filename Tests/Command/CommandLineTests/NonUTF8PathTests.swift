import TestSupport
import Testing

/// A path of the store that is not UTF-8, in the environment or in the working directory.
@Suite struct NonUTF8PathTests {
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
      "history --follow", "acquire q", "report cb1.1.1.1.0.0.q success",
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

  @Test(.timeLimit(.minutes(60)))
  func `a path in the environment that is not UTF-8 is refused, and no other is used`() throws {
    var cbctl = cbctl
    cbctl.prefix = #"env SHARED_BREAKER_STORE="\#(cbctl.directory.path)/\#(Self.name)/x.db""#
    try expectRefusal(of: "$SHARED_BREAKER_STORE is not UTF-8", by: cbctl)
    #expect(try Child.run("/bin/ls", [cbctl.directory.path]).contains("caf") == false)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a working directory that is not UTF-8 is refused, and no store is created`() throws {
    var cbctl = cbctl
    let folder = #""\#(cbctl.directory.path)/\#(Self.name)""#
    cbctl.prefix = "true; mkdir -p \(folder) && cd \(folder) &&"
    try expectRefusal(of: "the path is not UTF-8", store: " --store x.db", by: cbctl)
    let left = try Child.run("/bin/sh", ["-c", "find '\(cbctl.directory.path)' -name 'x.db*'"])
    #expect(left.isEmpty)
  }
}
