import TestSupport
import Testing

@Suite struct ReplacedFileTests {
  enum Change: CaseIterable {
    case deleted
    case deletedButNotItsLog
    case replaced
    case replacedButNotItsLog
    case restored
    case restoredButNotItsLog
    case deprivedOfItsLog
  }

  private static let parts = ["", "-wal", "-shm"]

  /// Another store, whose breaker is forced open, all in one file.
  private func makeOther(on stage: Stage) throws -> String {
    let path = stage.directory.file("other.db")
    let puppet = try Puppet(on: stage, store: path)
    #expect(try puppet.ask("force forced_open") == "ok")
    puppet.kill()
    // Its revisions are ahead of those of the store that it replaces.
    let others = (0..<50).map { "('other \($0)')" }.joined(separator: ", ")
    try Database.rows(path, "INSERT INTO breaker (name) VALUES \(others)")
    try Database.rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return path
  }

  private func copy(of stage: Stage) -> String { stage.directory.file("copy.db") }

  /// Keeps a copy of the store as it is before anything has happened.
  private func makeCopy(of stage: Stage) throws {
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    try Files.write(copy(of: stage), try Files.read(stage.store))
  }

  private func change(_ stage: Stage, _ change: Change) throws {
    switch change {
    case .deleted:
      for part in Self.parts { Files.removeAll(stage.store + part) }
    case .deletedButNotItsLog:
      Files.removeAll(stage.store)
    case .replaced:
      let other = try makeOther(on: stage)
      for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
      try Files.rename(other, to: stage.store)
    case .replacedButNotItsLog:
      try Files.rename(try makeOther(on: stage), to: stage.store)
    case .restored:
      for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
      try Files.rename(copy(of: stage), to: stage.store)
    case .restoredButNotItsLog:
      try Files.rename(copy(of: stage), to: stage.store)
    case .deprivedOfItsLog:
      for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: Change.allCases, [true, false])
  func `all processes notice a replaced store within a second and agree on the new one`(
    change: Change, isAtOnce: Bool
  ) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(6, "max-failures=3 open-for=30s")
    try makeCopy(of: stage)
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try puppets.ask("acquire").count("rejected") == 6)
    try self.change(stage, change)
    stage.clock.advance(by: .seconds(1))
    let isForced = change == .replaced || change == .replacedButNotItsLog
    // The first to notice opens the new one while all others still have the old one open.
    let answers =
      try isAtOnce ? puppets.ask("run ok") : puppets.map { try $0.ask("run ok") }
    #expect(answers.count(isForced ? "rejected" : "ok") == 6, "\(answers)")
    #expect(try puppets.ask("state").count("closed") == 6)

    // They share the new one as they shared the old one.
    for puppet in puppets { try puppet.ask("health") }
    #expect(try puppets[5].ask("force automatic") == "ok")
    #expect(try puppets[0].ask("failures 3") == "failed 3 rejected 0")
    #expect(try puppets.ask("acquire").count("rejected") == 6)
    #expect(try puppets.ask("health").count("connected") == 6)
    #expect(try puppets[3].ask("reset") == "ok")
    #expect(try puppets.ask("run ok").count("ok") == 6)
    #expect(try Database.integrity(stage.store) == "ok")
    #expect(try Database.value(stage.store, "SELECT trips FROM breaker WHERE name = 'api'") == "1")
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes that only look notice a replaced store too`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=3 open-for=30s")
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try puppets.ask("state") == ["open", "open"])
    try change(stage, .deleted)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppets[0].ask("state") == "closed")
    #expect(try puppets[1].ask("snapshot").hasPrefix("closed automatic permits=true"))
  }
}
