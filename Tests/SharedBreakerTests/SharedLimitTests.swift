import BreakerStore
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Limits that real processes share in one file.
@Suite struct SharedLimitTests {
  private static let words = "max-concurrent=2 lost-calls=failure max-failures=2"

  @Test(.timeLimit(.minutes(60)))
  func `processes share a limit, and each call gives its room back`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-concurrent=2")
    #expect(try puppets[0].ask("run") == "42")
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "normal")
    #expect(try puppets.ask("acquire").count("busy") == 3)
    #expect(try puppets[1].ask("succeed") == "counted")
    #expect(try puppets[2].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    #expect(try puppets[0].ask("fail") == "counted")
    #expect(try puppets[2].ask("ignore") == "counted")
    #expect(try puppets[1].ask("run") == "42")
    #expect(try puppets[1].ask("state") == "closed")
    #expect(Files.exists(stage.store + "-slots"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a breaker without a limit makes no file of slots`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, "max-failures=2")[0]
    #expect(try puppet.ask("run") == "42")
    #expect(!Files.exists(stage.store + "-slots"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `the hung calls of killed processes open the breaker, and their room is free at once`() throws
  {
    let stage = try Stage()
    let puppets = try stage.puppets(3, Self.words)
    #expect(try puppets[0].ask("run") == "42")
    for puppet in puppets.dropLast() {
      #expect(try puppet.ask("acquire") == "normal")
    }
    #expect(try puppets[2].ask("acquire") == "busy")
    for puppet in puppets.dropLast() { puppet.kill() }
    _ = try puppets[2].ask("acquire")
    #expect(try puppets[2].ask("state") == "open")
    let counts = try stage.sharedStore().snapshot(of: "api")?.totals
    #expect(counts?.failures == 2 && counts?.lostCalls == 2)
  }

  @Test(.timeLimit(.minutes(60)))
  func `killed calls are noticed even while there is room`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-concurrent=9 lost-calls=failure max-failures=2")
    #expect(try puppets[0].ask("run") == "42")
    for puppet in puppets.dropLast() { #expect(try puppet.ask("acquire") == "normal") }
    for puppet in puppets.dropLast() { puppet.kill() }
    // The first call of a later second looks after it, at most once a second on the host.
    while try stage.sharedStore().snapshot(of: "api")?.totals.lostCalls != 2 {
      stage.clock.advance(by: .seconds(2))
      try #require(["42", "rejected open 30000"].contains(puppets[2].ask("run")))
    }
    #expect(try puppets[2].ask("state") == "open")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a snapshot shows who is under way, and does not know without the file`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=2")
    #expect(try puppets[0].ask("run") == "42")
    let store = stage.sharedStore()
    for puppet in puppets { #expect(try puppet.ask("acquire") == "normal") }
    let shown = try #require(try store.snapshot(of: "api")?.limit)
    #expect(shown.unitsInUse == 2)
    #expect(Set(shown.calls.map(\.pid)) == Set(puppets.map { $0.process.pid }))
    #expect(shown.calls.allSatisfy { $0.program?.isEmpty == false && $0.age >= .zero })
    puppets[1].kill()
    #expect(puppets[1].process.waitForEnd() != 0)
    let left = try #require(try store.snapshot(of: "api")?.limit)
    #expect(left.unitsInUse == 1)
    #expect(left.calls.count { $0.isOwnerGone && $0.program == nil } == 1)
    // Only its beginning says what it belongs to.
    let path = stage.store + "-slots"
    let intact = try Files.read(path)
    for damage in [[], Array(intact.prefix(70_000)), [0] + intact.dropFirst()] {
      Files.removeAll(path)
      try Files.write(path, damage)
      #expect(try store.snapshot(of: "api")?.limit == nil)
    }
    Files.removeAll(path)
    #expect(try store.snapshot(of: "api")?.limit == nil)
    #expect(!Files.exists(path))
  }

  @Test(.timeLimit(.minutes(60)))
  func `calls of a process that exits by itself are not lost`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=1 lost-calls=failure max-failures=1")
    #expect(try puppets[0].ask("run") == "42")
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    try puppets[0].send("exit")
    #expect(puppets[0].process.waitForEnd() == 0)
    #expect(try puppets[1].ask("acquire") == "normal")
    #expect(try puppets[1].ask("succeed") == "counted")
    #expect(try puppets[1].ask("state") == "closed")
    #expect(try stage.sharedStore().snapshot(of: "api")?.totals.failures == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a forked child has none of its parent's room, and gives none of it back`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=2")
    #expect(try puppets[0].ask("run") == "42")
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[0].ask("fork succeed") == "refused")
    #expect(try puppets[0].ask("fork run") == "42")
    #expect(try puppets[1].ask("acquire") == "normal")
    #expect(try puppets[0].ask("fork acquire") == "busy")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[0].ask("acquire") == "normal")
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes find each other again when their file of slots was deleted`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-concurrent=1")
    #expect(try puppets[0].ask("run") == "42")
    #expect(try puppets[1].ask("run") == "42")
    Files.removeAll(stage.store + "-slots")
    // The next round of each looks after it.
    stage.clock.advance(by: .seconds(2))
    #expect(try puppets.ask("run") == ["42", "42"])
    #expect(try puppets[0].ask("acquire") == "normal")
    #expect(try puppets[1].ask("acquire") == "busy")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[1].ask("acquire") == "normal")
  }
}
