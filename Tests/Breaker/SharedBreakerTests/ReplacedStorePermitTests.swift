import TestSupport
import Testing

/// Permits and tokens that a store gave out before another one took its place.
@Suite struct ReplacedStorePermitTests {
  enum Change: CaseIterable {
    case begunAnew
    case restored
    case deprivedOfItsLog
  }

  private static let policy = "max-failures=1 open-for=30s probe-timeout=1h"

  /// Lets one of two processes ask for a probe, replaces the store, and lets the other one ask.
  ///
  /// The second probe has the same row, generation and lease as the first.
  private func ask(
    _ word: String, _ change: Change
  ) throws -> (stage: Stage, puppets: [Puppet], answers: [String]) {
    let stage = try Stage()
    let puppets = try stage.puppets(2, Self.policy)
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    let copy = try Files.read(stage.store)
    var answers: [String] = []
    for puppet in puppets {
      if puppet === puppets[1] { try replace(stage, change, by: copy) }
      #expect(try puppet.ask("open \(Self.policy)") == "ok")
      #expect(try puppet.ask("trip") == "ok")
      stage.clock.advance(by: .seconds(30))
      answers.append(try puppet.ask(word))
    }
    return (stage, puppets, answers)
  }

  private func replace(_ stage: Stage, _ change: Change, by copy: [UInt8]) throws {
    switch change {
    case .begunAnew:
      for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    case .restored:
      try Files.write(stage.directory.file("copy"), copy)
      try Files.rename(stage.directory.file("copy"), to: stage.store)
    case .deprivedOfItsLog:
      for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
    }
    stage.clock.advance(by: .seconds(2))
  }

  @Test(.timeLimit(.minutes(60)), arguments: Change.allCases, ["succeed", "fail", "ignore"])
  func `a permit from a replaced store changes nothing`(change: Change, word: String) throws {
    let (stage, puppets, answers) = try ask("acquire", change)
    #expect(answers == ["probe", "probe"])
    #expect(try puppets[0].ask(word) == "refused")
    #expect(try puppets[1].ask("state") == "half_open")
    #expect(try puppets[1].ask("snapshot").contains("leases=1"))
    #expect(try puppets[1].ask("succeed") == "counted")
    #expect(try puppets[0].ask("state") == "closed")
    withExtendedLifetime(stage) {}
  }

  @Test(.timeLimit(.minutes(60)), arguments: Change.allCases)
  func `a token from a replaced store changes nothing`(change: Change) throws {
    let (stage, puppets, tokens) = try ask("token", change)
    #expect(tokens[0] != tokens[1])
    #expect(tokens[0].split(separator: ".")[2...4] == tokens[1].split(separator: ".")[2...4])
    for word in ["ignored", "failure", "success"] {
      #expect(try puppets[0].ask("report \(tokens[0]) \(word)") == "refused")
    }
    #expect(try puppets[1].ask("state") == "half_open")
    #expect(try puppets[1].ask("report \(tokens[1]) success") == "counted")
    #expect(try puppets[0].ask("state") == "closed")
    withExtendedLifetime(stage) {}
  }

  @Test(.timeLimit(.minutes(60)))
  func `a call that began before the store was replaced does not open the new breaker`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=1 open-for=30s")
    // Granted from memory: such a permit is a word of a few bits.
    #expect(try puppets[0].ask("run ok") == "ok 42")
    #expect(try puppets[0].ask("acquire") == "normal")
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    stage.clock.advance(by: .seconds(2))
    #expect(try puppets[1].ask("open max-failures=1 open-for=30s") == "ok")
    #expect(try puppets[0].ask("fail") == "outdated")
    #expect(try puppets[1].ask("state") == "closed")
  }
}
