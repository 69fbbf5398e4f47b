import SharedBreaker
import TestSupport
import Testing

/// A store whose journal mode something else has changed, so that it has no write-ahead log.
@Suite struct JournalModeTests {
  private static let commands: [([String], Int32)] = [
    (["status"], 0), (["show", "pay"], 0), (["history"], 0), (["check", "pay"], 75),
    (["policy", "pay"], 0), (["metrics"], 0), (["page"], 0), (["export"], 0), (["init"], 0),
    (["reset", "pay"], 0), (["trip", "pay"], 0), (["run", "pay", "--", "true"], 75),
    (["acquire", "pay"], 75), (["delete", "mail", "--force"], 0),
  ]

  private func mode(_ clinic: Clinic) throws -> String {
    try Database.value(clinic.store, "PRAGMA journal_mode")
  }

  @Test(arguments: commands)
  func `every command restores the write-ahead log of a store that lost it`(
    words: [String], code: Int32
  ) throws {
    for isCopy in [false, true] {
      let clinic = try Clinic()
      if isCopy {
        try clinic.putCopyInPlace()
      } else {
        try clinic.sql("PRAGMA journal_mode=DELETE")
      }
      #expect(try mode(clinic) == "delete")
      let answer = clinic.cbctl(words)
      #expect(answer.code == code, "\(answer)")
      #expect(try mode(clinic) == "wal")
      #expect(clinic.cbctl(["status", "--json"]).output.contains(#""name":"pay""#))
    }
  }

  @Test func `the doctor reports another journal mode for as long as it lasts`() throws {
    let clinic = try Clinic()
    #expect(clinic.line("journal", of: clinic.doctor()).word == "ok")
    try clinic.fold()
    Files.removeAll(clinic.store + "-shm")
    Files.removeAll(clinic.store + "-wal")
    #expect(clinic.line("journal", of: clinic.doctor()).word == "ok")
    try clinic.sql("PRAGMA journal_mode=DELETE")
    let line = clinic.line("journal", of: clinic.doctor())
    #expect(line.word == "warn" && line.text.contains("mode delete"), "\(line.text)")
    #expect(clinic.cbctl(["status"]).code == 0)
    #expect(clinic.line("journal", of: clinic.doctor()).word == "ok")
  }

  @Test func `a store in another journal mode stays so while a process reads it`() throws {
    let clinic = try Clinic()
    try clinic.sql("PRAGMA journal_mode=DELETE")
    let reader = try Holder(clinic.store, "BEGIN; SELECT * FROM store")
    let repaired = clinic.doctor("--repair")
    #expect(repaired.code == 1)
    let line = clinic.line("journal", of: repaired)
    #expect(line.word == "warn" && line.text.contains("; repair: not done: "), "\(line.text)")
    // A breaker without its store permits every call.
    let run = clinic.cbctl(["run", "pay", "--", "true"])
    #expect(run.code == 0 && run.errors.contains("runs without its breaker"), "\(run)")
    withExtendedLifetime(reader) {}
  }

  @Test func `a running program goes on with a store whose journal mode is repaired`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api", policy: BreakerPolicy(openFor: .seconds(600)))
    try breaker.trip()
    let copy = stage.directory.file("copy")
    try Database.rows(stage.store, "VACUUM INTO '\(copy)'")
    try Files.changeMode(copy, to: 0o600)
    try breaker.reset()
    try Files.rename(copy, to: stage.store)
    // The repair runs in a process of its own.
    let cbctl = BuiltProducts.path(of: "cbctl")
    _ = try Child.run(
      "/bin/sh", ["-c", "'\(cbctl)' --store '\(stage.store)' doctor --repair || true"])
    #expect(try Database.value(stage.store, "PRAGMA journal_mode") == "wal")
    stage.clock.advance(by: .seconds(1))
    #expect(breaker.state == .open)
    try breaker.reset()
    #expect(try stage.sharedStore().snapshot(of: "api")?.state == .closed)
    #expect(store.health == .connected)
  }
}
