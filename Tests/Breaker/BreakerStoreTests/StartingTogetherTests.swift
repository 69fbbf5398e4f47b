import Glibc
import TestSupport
import Testing

@testable import BreakerStore

/// Processes that start at once, before there is a store.
@Suite struct StartingTogetherTests {
  /// They find no directory, or one in which every user may create files.
  @Test(.timeLimit(.minutes(60)), arguments: [nil, 0o1777] as [mode_t?])
  func `processes that start at once create one store`(in mode: mode_t?) throws {
    for round in 0..<rounds(20) {
      let stage = try Stage()
      if let mode {
        let directory = StorePath.split(stage.store).directory
        try Files.makeDirectory(directory)
        try Files.changeMode(directory, to: mode)
      }
      // A machine that is busy with other tests may need a while for so many processes.
      let puppets = try (0..<32).map { _ in try stage.puppet("lock-timeout=1800000") }
      // No process has opened anything: the first creates what is missing.
      let answers = try puppets.ask("connect")
      try #require(answers.count("ok") == 32, "round \(round): \(Set(answers))")
      let counts = try Database.rows(
        stage.store, "SELECT (SELECT count(*) FROM migration), (SELECT count(*) FROM store)")
      #expect(counts == [["\(Migration.all.count)", "1"]])
      #expect(try puppets.ask("acquire").count("normal") == 32)
      #expect(try puppets.ask("fail").count("counted") == 5)
      #expect(try puppets[round % 32].ask("snapshot").contains("trips=1 failures=32"))
      #expect(try puppets.ask("state").count("open") == 32)
      #expect(try puppets.ask("health").count("connected") == 32)
      #expect(try Database.integrity(stage.store) == "ok")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the file of a new store is a whole store even without its log`() throws {
    for _ in 0..<rounds(50) {
      let stage = try Stage()
      let puppets = try (0..<4).map { _ in try stage.puppet("lock-timeout=1800000") }
      try #require(try puppets.ask("connect").count("ok") == 4)
      let alone = stage.store + ".alone"
      try Files.write(alone, try Files.read(stage.store))
      #expect(try Database.integrity(alone) == "ok")
      #expect(try Database.migrations(alone) == Migration.all.count)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the file of a new store is whole even if a reader still sees the file before it`() throws {
    let stage = try Stage()
    try Files.makeDirectory(StorePath.split(stage.store).directory, mode: 0o700)
    // The reader has seen no table, so none may get into the file before it has finished.
    var reader: Holder? = try Holder(
      stage.store, "PRAGMA journal_mode = WAL; BEGIN; SELECT * FROM sqlite_schema")
    let maker = try stage.puppet("lock-timeout=1800000")
    try maker.send("connect")
    try DirectoryWatch.wait(in: StorePath.split(stage.store).directory) {
      try Database.value(stage.store, "PRAGMA user_version") != "0"
    }
    withExtendedLifetime(reader) {}
    reader = nil
    #expect(try maker.answer() == "ok")
    let alone = stage.store + ".alone"
    try Files.write(alone, try Files.read(stage.store))
    #expect(try Database.migrations(alone) == Migration.all.count)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the process that creates a store never waits indefinitely for a reader`() throws {
    let stage = try Stage()
    try Files.makeDirectory(StorePath.split(stage.store).directory, mode: 0o700)
    let reader = try Holder(
      stage.store, "PRAGMA journal_mode = WAL; BEGIN; SELECT * FROM sqlite_schema")
    let maker = try stage.puppet("lock-timeout=50")
    #expect(try maker.ask("run fail") == "failed")
    #expect(try maker.ask("health") == "connected")
    withExtendedLifetime(reader) {}
    #expect(try Database.value(stage.store, "SELECT failures FROM breaker") == "1")
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes that start at once need not wait for one that is killed as it starts`() throws {
    for _ in 0..<rounds(20) {
      let stage = try Stage()
      let puppets = try (0..<6).map { _ in try stage.puppet() }
      for puppet in puppets { try puppet.send("trip") }
      // The kill comes at a random moment of the start; the rounds are meant to hit all of them.
      usleep(UInt32.random(in: 0...12_000))
      puppets[0].kill()
      for puppet in puppets.dropFirst() {
        let answer = try puppet.answer()
        #expect(answer == "ok", "\(answer)")
      }
      #expect(try puppets.dropFirst().map { try $0.ask("health") }.count("connected") == 5)
      #expect(try Database.integrity(stage.store) == "ok")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a store whose creator is killed at any step is found whole or not at all`() throws {
    var steps: [String] = []
    while true {
      let stage = try Stage()
      let maker = try stage.puppet("watch")
      try maker.ask("stop-at \(steps.count + 1)")
      let answer = try maker.ask("connect")
      guard answer.hasPrefix("at ") else { break }
      steps.append(answer)
      maker.kill()
      let puppets = try (0..<2).map { _ in try stage.puppet() }
      #expect(try puppets.ask("connect") == ["ok", "ok"], "\(answer)")
      #expect(try puppets[0].ask("trip") == "ok")
      #expect(try puppets[1].ask("state") == "open")
      #expect(try Database.migrations(stage.store) == Migration.all.count)
      #expect(try Database.integrity(stage.store) == "ok", "\(answer)")
    }
    #expect(steps.contains { $0.contains("CREATE TABLE breaker") }, "\(steps)")
    #expect(steps.last?.hasSuffix("after COMMIT") == true)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a process does not wait long for one that is stopped while it creates the store`() throws {
    let stage = try Stage()
    let maker = try stage.puppet("watch")
    try maker.ask("stop-at 2")
    #expect(try maker.ask("connect").hasPrefix("at 2"))
    maker.process.stop()
    let other = try stage.puppet("lock-timeout=200")
    let start = ContinuousClock.now
    #expect(try other.ask("run ok") == "ok 42")
    #expect(try other.ask("run fail") == "failed")
    #expect(ContinuousClock.now - start < .seconds(60))
    #expect(try other.ask("health").hasPrefix("unavailable busy"))
    maker.kill()
    stage.clock.advance(by: .seconds(1))
    #expect(try other.ask("run ok") == "ok 42")
    #expect(try other.ask("health") == "connected")
  }
}
