import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// The data that a repair keeps, and the cases in which it gives up.
@Suite struct RepairCourseTests {
  private func repair(_ stage: Stage) throws -> StoreFinding {
    let findings = try stage.sharedStore().repair()
    return try #require(findings.first { $0.check == "integrity" })
  }

  @Test(.enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `a repair without room for a new store leaves the old one in place`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 4_096)
    try Files.changeMode(stage.directory.file("state"), to: 0o700)
    do {
      let store = stage.sharedStore()
      try store.breaker("api", policy: BreakerPolicy(maxFailures: 3)).trip()
      store.close()
    }
    try stage.damageHistory()
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
    #expect(done.repair?.contains("the new one took over 1 breaker") == true, "\(done)")
    #expect(try stage.sharedStore().snapshot(of: "api")?.state == .open)
  }

  @Test func `a repair gives up waiting for a writer and leaves the store alone`() throws {
    let stage = try Stage()
    do {
      let store = stage.sharedStore()
      try store.breaker("api").trip()
      store.close()
    }
    try stage.damageHistory()
    let writer = try Holder(stage.store, "BEGIN IMMEDIATE")
    let before = try Files.read(stage.store)
    let failed = try repair(stage)
    #expect(failed.repair?.hasPrefix("not done: ") == true, "\(failed)")
    #expect(try Files.read(stage.store) == before)
    withExtendedLifetime(writer) {}
  }

  @Test func `a repair keeps how long a breaker has been in each state`() throws {
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
    try stage.damageHistory()
    #expect(try repair(stage).isWell)
    let after = try #require(try stage.sharedStore().snapshot(of: "api"))
    #expect(after.timeInStates == before.timeInStates)
    #expect(after.transitions == before.transitions)
    #expect(after.trips == before.trips)
  }

  private struct Boom: Error {}

  @Test func `a repair keeps the totals, times and modes of breakers`() throws {
    let stage = try Stage()
    do {
      let store = stage.sharedStore()
      let open = try store.breaker("open", policy: BreakerPolicy(maxFailures: 2))
      _ = try open.run { 42 }
      for _ in 0..<2 { try? open.run { throw Boom() } }
      try open.reset()
      try open.trip(for: .seconds(90))
      let held = try store.breaker("held")
      try held.force(.forcedOpen, for: .seconds(3_600), reason: "new disks")
      stage.clock.advance(by: .seconds(30))
      store.close()
    }
    let names = ["open", "held"]
    let before = try names.map { try #require(try stage.sharedStore().snapshot(of: $0)) }
    #expect(before[0].trips == 2)
    try stage.damageHistory()
    #expect(try repair(stage).isWell)
    let store = stage.sharedStore()
    for (name, before) in zip(names, before) {
      let after = try #require(try store.snapshot(of: name))
      #expect(after.totals == before.totals)
      #expect(after.trips == before.trips)
      #expect(after.transitions == before.transitions)
      #expect(after.timeInStates == before.timeInStates)
      #expect(after.openEndsIn == before.openEndsIn)
      #expect(after.mode == before.mode)
      #expect(after.modeEndsIn == before.modeEndsIn)
      #expect(after.modeReason == before.modeReason)
      #expect(after.modeSetBy == before.modeSetBy)
    }
    // After a reboot, a mode lasts no longer than it was first set for.
    stage.clock.reboot(after: .seconds(60))
    #expect(try store.snapshot(of: "held")?.mode == .forcedOpen)
  }

  @Test(arguments: [(isItsOwn: true, successes: 4), (isItsOwn: false, successes: 2)])
  func `a repair keeps the counts beside the store if they belong to it`(
    isItsOwn: Bool, successes: Int64
  ) throws {
    let stage = try Stage()
    do {
      let store = stage.sharedStore()
      let breaker = try store.breaker("api")
      _ = try breaker.run { 42 }
      try? breaker.run { throw Boom() }
      // The first success ends a streak of failures, which is written to the store.
      for _ in 0..<3 { _ = try breaker.run { 42 } }
      store.close()
    }
    if !isItsOwn { try Database.rows(stage.store, "UPDATE breaker SET counters_key = 5") }
    try stage.damageHistory()
    #expect(try repair(stage).isWell)
    let totals = try #require(try stage.sharedStore().snapshot(of: "api")).totals
    #expect(totals.successes == successes)
    #expect(totals.failures == 1)
  }

  @Test func `a repair does not change the mode of a store that has two names`() throws {
    let clinic = try Clinic()
    #expect(unsafe link(clinic.store, clinic.directory.file("other")) == 0)
    try Files.changeMode(clinic.store, to: 0o604)
    let answer = clinic.doctor("--repair")
    #expect(answer.code == 1)
    let line = clinic.line("files", of: answer).text
    #expect(line.contains("repair: not done: ") && line.contains("has 2 names"), "\(line)")
    #expect(try Files.permissions(of: clinic.store).mode == 0o604)
  }

  @Test func `a repair gives a breaker without a valid name an unused one`() throws {
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

  @Test func `an examination counts breakers against the limit of the program`() throws {
    let stage = try Stage()
    var options = StoreOptions(clock: stage.clock.clock)
    options.maximumBreakers = 2
    let store = SharedStore(path: stage.store, options: options)
    for name in ["a", "b"] { try store.breaker(name).trip() }
    let finding = try store.examine().first { $0.check == "breakers" }
    #expect(finding?.found == "2 of at most 2")
    #expect(finding?.result == .warning)
  }
}
