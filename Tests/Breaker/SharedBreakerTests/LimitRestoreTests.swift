import Glibc
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Limits that a restored backup or a command of the fleet changes while callers wait for room.
@Suite(.timeLimit(.minutes(60))) struct LimitRestoreTests {
  /// A cause of a change of the limit.
  enum Change: CaseIterable {
    case backup
    case fleet
  }

  private let stage: Stage
  private let store: SharedStore

  init() throws {
    stage = try Stage()
    store = stage.sharedStore()
  }

  /// Starts processes, each of which has a call under way.
  private func holders(_ count: Int, _ words: String) throws -> [Puppet] {
    let puppets = try stage.puppets(count, words)
    #expect(try puppets[0].ask("run") == "ok 42")
    for puppet in puppets { #expect(try puppet.ask("acquire") == "normal") }
    return puppets
  }

  /// Starts processes, each of which waits for room.
  private func waiters(_ count: Int, _ words: String) throws -> [Puppet] {
    let puppets = try stage.puppets(count, words)
    for puppet in puppets { try puppet.send("acquire") }
    while try limit().waiters.count != count { sched_yield() }
    return puppets
  }

  private func limit() throws -> LimitSnapshot {
    try #require(try store.snapshot(of: "api")?.limit)
  }

  /// Changes the limit in a store that makes no calls.
  private func setLimit(to limit: Int, by change: Change) throws {
    let other = stage.sharedStore()
    switch change {
    case .backup:
      var backup = try #require(try other.snapshot(of: "api")).backup
      backup.operatorPolicy = "max-concurrent=\(limit)"
      try other.restore([backup], replacing: true)
    case .fleet:
      let relay = try #require(try other.claimRelay(fleet: "f", host: "a"))
      let command = FleetCommand(
        name: "api", action: .policy(set: [.maxConcurrent: "\(limit)"], unset: []),
        reason: nil, author: "ann", host: "b", stamp: 11, age: .zero)
      #expect(try relay.apply([.command(command)], position: nil) == [.applied])
      relay.release()
    }
    other.close()
  }

  @Test(arguments: Change.allCases)
  func `waiting callers begin at once when their limit is raised`(change: Change) throws {
    let words = "max-concurrent=1 queue-timeout=20s"
    let holder = try holders(1, words)[0]
    let waiting = try waiters(3, words)
    try setLimit(to: 3, by: change)
    while try limit().unitsInUse != 3 { sched_yield() }
    #expect(try limit().waiters.count == 1)
    #expect(try holder.ask("succeed") == "counted")
    for puppet in waiting { #expect(try puppet.answer() == "normal") }
  }

  @Test(arguments: Change.allCases)
  func `a limit that is lowered admits no waiting caller`(change: Change) throws {
    let words = "max-concurrent=2 queue-timeout=1h"
    let holders = try holders(2, words)
    let waiting = try waiters(1, words)[0]
    try setLimit(to: 1, by: change)
    #expect(try holders[0].ask("succeed") == "counted")
    for _ in 0..<100 {
      let limit = try limit()
      #expect(limit.unitsInUse == 1 && limit.waiters.count == 1)
    }
    #expect(try holders[1].ask("succeed") == "counted")
    #expect(try waiting.answer() == "normal")
  }

  @Test func `a limit that is removed admits all waiting callers`() throws {
    let words = "max-concurrent=1 queue-timeout=20s"
    let holder = try holders(1, words)[0]
    let waiting = try waiters(2, words)
    let other = stage.sharedStore()
    var backup = try #require(try other.snapshot(of: "api")).backup
    backup.codePolicy = "max-failures=9"
    try other.restore([backup], replacing: true)
    for puppet in waiting { #expect(try puppet.answer() == "normal") }
    #expect(try holder.ask("succeed") == "counted")
  }
}
