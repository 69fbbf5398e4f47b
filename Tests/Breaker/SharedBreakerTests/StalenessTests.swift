import SharedBreaker
import TestSupport
import Testing

/// The next call of every other process sees a write of one process.
@Suite struct StalenessTests {
  @Test(.timeLimit(.minutes(60)))
  func `a change by one process is seen by the very next call of another`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(4, "max-failures=3 open-for=30s")
    for round in 0..<rounds(200) {
      let author = puppets[round % 4]
      let reader = puppets[(round + 1) % 4]
      #expect(try author.ask("trip") == "ok")
      try #require(try reader.ask("acquire").hasPrefix("rejected open"), "trip \(round)")
      #expect(try author.ask("reset") == "ok")
      try #require(try reader.ask("run ok") == "ok 42", "reset \(round)")
      #expect(try author.ask("force forced_open") == "ok")
      try #require(try reader.ask("run ok").hasPrefix("rejected"), "force \(round)")
      #expect(try author.ask("force automatic") == "ok")
      try #require(try reader.ask("run ok") == "ok 42", "automatic \(round)")
      #expect(try author.ask("policy max-failures 1") == "ok")
      #expect(try reader.ask("run fail") == "failed")
      try #require(try reader.ask("state") == "open", "policy \(round)")
      #expect(try author.ask("policy max-failures") == "ok")
      #expect(try author.ask("reset") == "ok")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a failure that trips a breaker is seen by the very next call of every process`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(8, "max-failures=1 open-for=30s")
    for round in 0..<rounds(50) {
      #expect(try puppets[round % 8].ask("run fail") == "failed")
      let answers = try puppets.ask("run ok")
      try #require(answers.count("rejected") == 8, "round \(round)")
      #expect(try puppets[(round + 3) % 8].ask("reset") == "ok")
      try #require(try puppets.ask("run ok").count("ok") == 8, "round \(round)")
    }
  }

  @Test(
    .timeLimit(.minutes(60)),
    .enabled(if: Files.exists("/usr/bin/sqlite3"), "needs the sqlite3 shell"))
  func `a change by the sqlite3 shell is seen by the very next call`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, "open-for=30s")[0]
    func shell(_ sql: String) throws {
      _ = try Child.run("/usr/bin/sqlite3", [stage.store, ".timeout 1800000", sql])
    }
    for round in 0..<rounds(10) {
      #expect(try puppet.ask("run ok") == "ok 42")
      try shell("UPDATE breaker SET mode = 1 WHERE name = 'api'")
      try #require(try puppet.ask("run ok") == "rejected closed never", "mode \(round)")
      try shell("DELETE FROM breaker WHERE name = 'api'")
      try #require(try puppet.ask("run ok") == "ok 42", "delete \(round)")
      try shell("DELETE FROM breaker; INSERT INTO breaker (name, mode) VALUES ('api', 1)")
      try #require(try puppet.ask("run ok") == "rejected closed never", "insert \(round)")
      try shell("UPDATE breaker SET mode = 0, code_policy = 'max-failures=1'")
      #expect(try puppet.ask("run fail") == "failed")
      try #require(try puppet.ask("run ok") == "rejected open 30000", "policy \(round)")
      try shell("UPDATE breaker SET state = 0, generation = generation + 1")
      try #require(try puppet.ask("run ok") == "ok 42", "state \(round)")
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: 1..<4)
  func `an edit made while no process has the file open is seen afterwards`(commits: Int) throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api")
    for _ in 0..<4 { try breaker.reset() }
    // The count of commits starts over with each opening.
    store.close()
    for _ in 0..<commits { try breaker.reset() }
    #expect(breaker.snapshot().mode == .automatic)
    store.close()
    try Database.rows(stage.store, "UPDATE breaker SET mode = 1")
    #expect(breaker.snapshot().mode == .forcedOpen)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a process's own commit does not hide what another one committed before it`() throws {
    let directory = try TemporaryDirectory()
    let here = SharedStore(path: directory.store)
    let there = SharedStore(path: directory.store)
    let written = try here.breaker("written")
    let watched = try here.breaker("watched")
    for round in 0..<200 {
      #expect(written.state == .closed)
      #expect(watched.state == .closed)
      try there.breaker("watched").trip()
      // Writes without reading first, as every operator's command does.
      try written.reset()
      #expect(watched.state == .open, "round \(round)")
      try there.breaker("watched").reset()
    }
  }
}
