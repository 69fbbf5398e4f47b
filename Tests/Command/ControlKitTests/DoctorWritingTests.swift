import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Findings of `doctor` about a store that commands refuse to write to.
@Suite struct DoctorWritingTests {
  private func writing(_ store: String) -> Substring {
    let answer = cbctl(store, "doctor")
    return answer.output.split(separator: "\n").first { $0.contains("  writing ") } ?? "\(answer)"
  }

  @Test func `the doctor finds that a store can be written and leaves no trace`() throws {
    let clinic = try Clinic()
    let before = try clinic.everything()
    #expect(writing(clinic.store).hasPrefix("ok    writing"), "\(writing(clinic.store))")
    #expect(try clinic.everything() == before)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the doctor names the process that holds the write lock`() throws {
    let stage = try Stage()
    let writer = try stage.puppets(1, "max-failures=3", options: ["watch"])[0]
    try writer.ask("stop-at 3")
    #expect(try writer.ask("run fail").hasPrefix("at 3"))
    let line = writing(stage.store)
    #expect(
      line.hasPrefix(
        "BAD   writing     process \(writer.pid) (puppet) has held the write lock for"),
      "\(line)")
    #expect(try writer.ask("go") == "failed")
    #expect(writing(stage.store).hasPrefix("ok "), "\(writing(stage.store))")
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `the doctor finds that a full disk takes no new data`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 4_096)
    try Files.changeMode(stage.directory.file("state"), to: 0o700)
    #expect(cbctl(stage.store, "policy", "x", "--set", "probes=2").code == 0)
    #expect(writing(stage.store).hasPrefix("ok "), "\(writing(stage.store))")
    try disk.fill()
    let line = writing(stage.store)
    #expect(
      line.hasPrefix(
        "BAD   writing     a file beside the store cannot be written: no space left on device"),
      "\(line)")
    disk.makeRoom()
    #expect(writing(stage.store).hasPrefix("ok "))
  }

  @Test(.enabled(if: isSuperuser, "needs root, to become other users"))
  func `the doctor says that this user cannot write to the store`() async throws {
    let clinic = try Clinic()
    for part in ["", "-wal", "-shm", "-counters", "-lock"] {
      try Files.changeMode(clinic.store + part, to: 0o644)
    }
    try Files.changeMode(clinic.folder, to: 0o755)
    await #expect(processExitsWith: .success) { [path = clinic.store as String] in
      try become(user: stranger, group: stranger)
      let answer = cbctl(path, "doctor")
      let words =
        "warn  writing     this process cannot write: it belongs to root, mode 0644, and this"
        + " process runs as nobody"
      require(answer.code == 1 && answer.output.contains(words), answer)
    }
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs root, to become other users"),
    arguments: [true, false])
  func `the doctor names a process of a user who cannot write to the store`(isReader: Bool) throws {
    let clinic = try Clinic()
    let keeps = isReader ? "" : "3<&-"
    let server = try Child(
      "/bin/sh",
      [
        "-c",
        """
        exec 3<>'\(clinic.store)'
        setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo $$; read line' \(keeps)
        true
        """,
      ])
    let pid = try #require(try server.line())
    let line = writing(clinic.store)
    // Without CAP_SYS_PTRACE, root does not see what other users' processes have open.
    let isSeen = isReader && Files.names(in: "/proc/\(pid)/fd").contains("3")
    let who = "process \(pid) (sh), which runs as nobody, "
    #expect(
      line.hasPrefix(
        isSeen
          ? "warn  writing     \(who)cannot reach and write the store"
          : "note  writing     \(who)could not reach and write the store"), "\(line)")
    try server.send("")
    _ = server.waitForEnd()
  }
}
