import TestSupport
import Testing

/// A store that its user may only read, or may not even read.
struct RightsTests {
  private let cbctl: CommandLineTool

  init() throws {
    var cbctl = try CommandLineTool()
    _ = try cbctl("policy api --set probes=2")
    // File modes do not restrict the superuser, so the command runs as another user.
    if isSuperuser { cbctl.prefix = "setpriv --reuid 65534 --regid 65534 --clear-groups" }
    self.cbctl = cbctl
  }

  private func set(_ file: UInt32, _ directory: UInt32) throws {
    for part in ["", "-wal", "-shm", "-counters", "-lock"] {
      try Files.changeMode(cbctl.store + part, to: file)
    }
    try Files.changeMode(cbctl.directory.file("state"), to: directory)
  }

  private static let asking = [
    "status", "show api", "history", "check api", "wait api --state closed", "policy api", "init",
  ]
  private static let changing = [
    "reset api", "trip api", "force api observe", "policy api --set probes=3", "delete api --force",
  ]

  @Test(.timeLimit(.minutes(60)))
  func `a store that can only be read answers and is not changed`() throws {
    try set(0o444, 0o555)
    defer { try? set(0o600, 0o700) }
    for command in Self.asking {
      let result = try cbctl(command)
      #expect(result.code == 0, "\(command): \(result.errors)")
      #expect(!result.output.isEmpty, "\(command)")
    }
    for command in Self.changing {
      let result = try cbctl(command)
      #expect(result.code == 69, "\(command)")
      #expect(result.output.isEmpty, "\(command)")
      #expect(result.errors.contains("it is read-only"), "\(command): \(result.errors)")
    }
    #expect(try cbctl("run api -- echo ran").output == "ran\n")
    #expect(try cbctl("watch | head -n 1; true").output.contains("api: closed"))
    #expect(try cbctl("history --follow | head -n 1; true").output.contains("probes=2"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a user without rights is told whom to ask`() throws {
    try set(0o000, 0o000)
    defer { try? set(0o600, 0o700) }
    let all = Self.asking + Self.changing + ["acquire api", "watch", "history --follow"]
    for command in all + ["report cb1.1.1.1.0.0.api success"] {
      let result = try cbctl(command)
      #expect(result.code == 69, "\(command)")
      #expect(result.output.isEmpty, "\(command)")
      let state = cbctl.directory.file("state")
      let words =
        "permission denied: \(state) belongs to root, mode 0000, and this process runs as nobody:"
        + " ask its owner, or use another path"
      #expect(
        !isSuperuser && result.errors.contains("permission denied: ")
          || result.errors.contains(words), "\(result.errors)")
    }
    let run = try cbctl("run api -- echo ran")
    #expect(run.code == 0)
    #expect(run.output == "ran\n")
    #expect(run.errors.contains("the command runs without its breaker"))
    #expect(try cbctl("help").code == 0)
  }
}
