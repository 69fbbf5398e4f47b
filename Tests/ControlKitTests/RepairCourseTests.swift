import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// What a repair does on its way, and where it ends before it is done.
@Suite struct `A repair` {
  private func damage(_ stage: Stage) throws {
    let root = try Database.value(
      stage.store, "SELECT rootpage FROM sqlite_schema WHERE name = 'event'")
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    var bytes = try Files.read(stage.store)
    let start = (try #require(Int(root)) - 1) * 1_024
    for index in start..<start + 1_024 { bytes[index] = 0x5A }
    try Files.overwrite(stage.store, bytes)
  }

  private func repair(_ stage: Stage) throws -> StoreFinding {
    let findings = try stage.sharedStore().repair()
    return try #require(findings.first { $0.check == "integrity" })
  }

  @Test(.enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `leaves the store where it was if there is no room for another`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 4_096)
    try Files.changeMode(stage.directory.file("state"), to: 0o700)
    do {
      let store = stage.sharedStore()
      try store.breaker("api", policy: BreakerPolicy(maxFailures: 3)).trip()
      store.close()
    }
    try damage(stage)
    try disk.fill()
    let before = try Files.read(stage.store)
    let failed = try repair(stage)
    #expect(failed.result == .bad)
    #expect(failed.repair?.hasPrefix("not done: ") == true, "\(failed)")
    #expect(try Files.read(stage.store) == before)
    let names = Files.names(in: stage.directory.file("state"))
    #expect(!names.contains { $0.contains(".new-") || $0.contains(".corrupt-") }, "\(names)")
    disk.makeRoom()
    let done = try repair(stage)
    #expect(done.repair?.contains("1 breakers were taken over") == true, "\(done)")
    #expect(try stage.sharedStore().snapshot(of: "api")?.state == .open)
  }

  @Test func `does not wait for ever for a writer, and leaves the store to it`() throws {
    let stage = try Stage()
    do {
      let store = stage.sharedStore()
      try store.breaker("api").trip()
      store.close()
    }
    try damage(stage)
    let writer = try Holder(stage.store, "BEGIN IMMEDIATE")
    let before = try Files.read(stage.store)
    let failed = try repair(stage)
    #expect(failed.repair?.hasPrefix("not done: ") == true, "\(failed)")
    #expect(try Files.read(stage.store) == before)
    withExtendedLifetime(writer) {}
  }

  @Test func `takes over how long a breaker has been in each state`() throws {
    let stage = try Stage()
    do {
      let store = stage.sharedStore()
      let breaker = try store.breaker("api")
      _ = try breaker.run { 42 }
      store.close()
      stage.clock.advance(by: .seconds(10))
      try breaker.trip()
      stage.clock.advance(by: .seconds(5))
      store.close()
    }
    let before = try #require(try stage.sharedStore().snapshot(of: "api"))
    #expect(before.transitions.open == 1)
    try damage(stage)
    #expect(try repair(stage).isWell)
    let after = try #require(try stage.sharedStore().snapshot(of: "api"))
    #expect(after.timeInStates == before.timeInStates)
    #expect(after.transitions == before.transitions)
    #expect(after.trips == before.trips)
  }

  @Test func `finds a name that is free`() throws {
    let clinic = try Clinic()
    try clinic.sql(
      """
      UPDATE breaker SET name = 'damaged-' || (SELECT id FROM breaker WHERE name = 'pay')
        WHERE name = 'mail';
      UPDATE breaker SET name = CAST(x'1B5B326AFF' AS TEXT) WHERE name = 'pay'
      """)
    let answer = clinic.doctor("--repair")
    #expect(answer.code == 0, "\(answer)")
    #expect(clinic.line("rows", of: answer).text.contains("repair: done: "), "\(answer)")
  }

  @Test func `counts breakers against the limit of the program`() throws {
    let stage = try Stage()
    var options = StoreOptions(clock: stage.clock.clock)
    options.maximumBreakers = 2
    let store = SharedStore(path: stage.store, options: options)
    for name in ["a", "b"] { try store.breaker(name).trip() }
    let finding = try store.examine().first { $0.check == "breakers" }
    #expect(finding?.found == "2 of 2 at most")
    #expect(finding?.result == .warning)
  }
}
