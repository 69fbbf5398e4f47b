import TestSupport
import Testing

/// A log, or its index, that is deleted while processes use it.
@Suite struct LostLogTests {
  @Test(.timeLimit(.minutes(60)), arguments: [["-shm"], ["-wal"], ["-wal", "-shm"]])
  func `a log deleted under running processes keeps them apart for a second at most`(
    parts: [String]
  ) throws {
    let stage = try Stage()
    let before = try stage.puppets(2, "max-failures=3 open-for=30s")
    #expect(try before.ask("run ok").count("ok") == 2)
    for part in parts { Files.removeAll(stage.store + part) }
    stage.clock.advance(by: .seconds(1))
    let all = before + [try stage.puppet()]
    #expect(try all.ask("run ok").count("ok") == 3)
    #expect(try all[2].ask("trip") == "ok")
    #expect(try all.ask("run ok").count("rejected") == 3)
    #expect(try all[0].ask("reset") == "ok")
    #expect(try all.ask("run ok").count("ok") == 3)
    #expect(try all.ask("health").count("connected") == 3)
    #expect(try Database.integrity(stage.store) == "ok")
  }

  @Test(.timeLimit(.minutes(60)), arguments: [["-shm"], ["-wal"], ["-wal", "-shm"]])
  func `a process that starts before others have noticed a deleted log uses the store`(
    parts: [String]
  ) throws {
    let stage = try Stage()
    let before = try stage.puppets(2, "max-failures=3 open-for=30s")
    #expect(try before.ask("run ok").count("ok") == 2)
    for part in parts { Files.removeAll(stage.store + part) }
    let late = try stage.puppet()
    #expect(try late.ask("trip") == "ok")
    #expect(try late.ask("health") == "connected")
    stage.clock.advance(by: .seconds(1))
    #expect(try before.ask("run ok").count("rejected") == 2)
    #expect(try before.ask("health").count("connected") == 2)
    #expect(try Database.integrity(stage.store) == "ok")
  }
}
