import Glibc
import TestSupport
import Testing

/// Every command that uses the store, with an unusual output, terminal or user.
@Suite struct CircumstanceTests {
  private static let looking = [
    "status", "status 'x*'", "show x", "history", "check x", "policy x", "metrics",
  ]
  private static let changing = [
    "reset x", "trip x", "force x forced_open", "policy x --set probes=2", "delete x --force",
  ]

  private static let asNobody = "setpriv --reuid 65534 --regid 65534 --clear-groups"

  private static let canBecomeNobody =
    (try? Child.run(
      "/bin/sh", ["-c", "\(asNobody) '\(BuiltProducts.path(of: "cbctl"))' --version 2>&1"])) != nil

  /// Runs a line of bash in which `$cbctl` is the command, and answers its output and errors.
  private func bash(_ cbctl: CommandLineTool, _ line: String) throws -> [Substring] {
    let setting =
      "export SHARED_BREAKER_STORE='\(cbctl.store)'; cbctl='\(BuiltProducts.path(of: "cbctl"))';"
    return try Child.run("/bin/bash", ["-c", "\(setting) { \(line); } 2>&1 </dev/null"])
      .split(separator: "\n")
  }

  private func made() throws -> CommandLineTool {
    let cbctl = try CommandLineTool()
    #expect(try cbctl("policy x --set open-for=1m").code == 0)
    return cbctl
  }

  @Test(.timeLimit(.minutes(60)), arguments: Self.looking + Self.changing)
  func `a command ends with 0 when the reader of its output has gone`(command: String) throws {
    let cbctl = try made()
    let lines = try bash(cbctl, "{ $cbctl \(command); echo code $? >&2; } | true")
    #expect(lines == ["code 0"])
  }

  @Test(.timeLimit(.minutes(60)), arguments: Self.looking + Self.changing)
  func `a command needs no terminal and uses no colours without one`(command: String) throws {
    let cbctl = try made()
    let lines = try bash(cbctl, "setsid -w $cbctl \(command); echo code $?")
    #expect(lines.last == "code 0")
    #expect(!lines.contains { $0.contains("\u{1b}") })
  }

  @Test(
    .timeLimit(.minutes(60)),
    .enabled(if: Self.canBecomeNobody, "needs root, and a build that other users may run"),
    arguments: Self.looking + Self.changing)
  func `a command that may not use the store says so in one line`(command: String) throws {
    let cbctl = try made()
    let nobodys = "\(Self.asNobody) $cbctl"
    let lines = try bash(cbctl, "\(nobodys) \(command) >/dev/null; echo code $?")
    #expect(lines.count == 2 && lines.last == "code 69", "\(lines)")
    #expect(
      lines.first?.contains("belongs to root, mode ") == true
        && lines.first?.contains(", and this process runs as nobody: ask its owner") == true,
      "\(lines)")
    // A command behind a breaker runs all the same.
    let behind = try bash(cbctl, "\(nobodys) run x -- echo ran")
    #expect(behind.count == 2 && behind.contains("ran"), "\(behind)")
  }

  @Test(
    .timeLimit(.minutes(60)),
    .enabled(if: Self.canBecomeNobody, "needs root, and a build that other users may run"),
    arguments: Self.looking + Self.changing)
  func `a store that may only be read is shown but not changed`(command: String) throws {
    let cbctl = try made()
    try Files.changeMode(cbctl.directory.file("state"), to: 0o755)
    for part in ["", "-wal", "-shm", "-counters", "-lock"] {
      try Files.changeMode(cbctl.store + part, to: 0o644)
    }
    let lines = try bash(
      cbctl, "\(Self.asNobody) $cbctl \(command) >/dev/null; echo code $?")
    if Self.looking.contains(command) {
      #expect(lines == ["code 0"])
    } else {
      #expect(lines.count == 2 && lines.last == "code 69", "\(lines)")
      #expect(lines.first?.contains("runs as nobody: make it") == true, "\(lines)")
    }
  }
}
