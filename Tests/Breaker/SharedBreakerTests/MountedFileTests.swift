import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Files of a store that are mounted without their directory, as `docker -v s.db:s.db` does.
@Suite(.enabled(if: Mounts.arePossible, "no mount namespace can be made here"))
struct MountedFileTests {
  private static let policy = "max-failures=3 open-for=30s max-concurrent=9"

  /// Commands that mount the store's directory, or some of its files, in a directory `other`.
  private static func mounts(_ stage: Stage, _ suffixes: [String]) -> String {
    let other = stage.directory.file("other")
    return suffixes.map {
      """
      touch '\(other)/breakers.db\($0)'
      mount --bind '\(stage.store)\($0)' '\(other)/breakers.db\($0)'

      """
    }.joined()
  }

  private func puppet(_ stage: Stage, _ commands: String) throws -> Puppet {
    try Puppet(
      on: stage, store: stage.directory.file("other/breakers.db"),
      startedBy: Mounts.launcher(commands))
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      [""], ["-wal"], ["-shm"], ["-counters"], ["-slots"], ["", "-wal", "-shm", "-counters"],
    ])
  func `a file that is mounted without its directory is refused, and loses nothing`(
    suffixes: [String]
  ) throws {
    let stage = try Stage()
    let running = try stage.puppets(1, Self.policy)[0]
    #expect(try running.ask("failures 2") == "failed 2 rejected 0")
    #expect(try running.ask("run ok") == "ok 42")
    #expect(try running.ask("failures 2") == "failed 2 rejected 0")
    try Files.makeDirectory(stage.directory.file("other"))
    if !suffixes.contains("") {
      _ = try Child.run(
        "/bin/cp", [stage.store, stage.directory.file("other/breakers.db")])
    }
    let inside = try puppet(stage, Self.mounts(stage, suffixes))
    #expect(try inside.ask("connect").contains("mount the directory"), "\(suffixes)")
    // A broken store never stops calls.
    #expect(try inside.ask("run ok") == "ok 42")
    #expect(try running.ask("run fail") == "failed")
    #expect(try running.ask("state") == "open")
    #expect(try Database.integrity(stage.store) == "ok")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a store whose directory is mounted, also by way of a link, is one store`() throws {
    let stage = try Stage()
    let running = try stage.puppets(1, Self.policy)[0]
    #expect(try running.ask("failures 2") == "failed 2 rejected 0")
    let other = stage.directory.file("other")
    try Files.makeDirectory(stage.directory.file("mounted"))
    try Files.link(other, to: stage.directory.file("mounted"))
    let mount =
      "mount --bind '\(stage.directory.file("state"))' '\(stage.directory.file("mounted"))'"
    let inside = try puppet(stage, mount)
    #expect(try inside.ask("connect") == "ok")
    #expect(try inside.ask("run fail") == "failed")
    #expect(try running.ask("snapshot").contains(" failures=3 "))
  }

  @Test(.timeLimit(.minutes(60)))
  func `the doctor reports a file that is mounted without its directory`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    store.close()
    try Files.makeDirectory(stage.directory.file("other"))
    let doctor = try Child(
      "/usr/bin/env",
      Mounts.launcher(Self.mounts(stage, [""])) + [
        BuiltProducts.path(of: "cbctl"), "--store", stage.directory.file("other/breakers.db"),
        "doctor",
      ], hasWords: true)
    let told = try doctor.rest()
    #expect(doctor.waitForEnd() != 0)
    #expect(told.contains("mounted without its directory"), "\(told)")
    #expect(told.contains("mount the directory"), "\(told)")
  }
}

private enum Mounts {
  static let arePossible: Bool = {
    let words = launcher("mount -t tmpfs none /mnt")
    guard let child = try? Child("/usr/bin/env", words + ["true"], hasWords: true) else {
      return false
    }
    return child.waitForEnd() == 0
  }()

  /// Starts a program in a mount namespace of its own, after commands that mount something there.
  static func launcher(_ commands: String) -> [String] {
    ["unshare", "--mount", "sh", "-ec", "\(commands)\nexec \"$@\"", "sh"]
  }
}
