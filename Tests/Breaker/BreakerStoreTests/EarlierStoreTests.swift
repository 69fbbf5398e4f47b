@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

/// A store of an earlier version, which the library brings up to date.
@Suite struct EarlierStoreTests {
  /// Creates a store as the first migrations did, and then runs some SQL in it.
  private func make(_ stage: Stage, version: Int, _ sql: String) throws {
    try Files.makeDirectory(stage.directory.file("state"))
    try Files.write(stage.store, [])
    try Database.rows(stage.store, "PRAGMA journal_mode=WAL")
    for migration in Migration.all.prefix(version) {
      try Database.rows(stage.store, migration.sql)
    }
    try Database.rows(
      stage.store,
      """
      INSERT INTO store (id, identity, created_at_ms) VALUES (1, 7, 0);
      PRAGMA application_id=\(Migrator.applicationID); PRAGMA user_version=\(version);
      \(sql)
      """)
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs root, to become another user"))
  func `a user who may create nothing beside an old store can still bring it up to date`() throws {
    let stage = try Stage()
    try make(stage, version: 1, "")
    // Keeps the log and its index in place.
    let running = try Holder(stage.store, "SELECT count(*) FROM store")
    for suffix in ["", "-wal", "-shm"] { try Files.changeMode(stage.store + suffix, to: 0o666) }
    try Files.changeMode(stage.directory.file("state"), to: 0o755)
    let puppets = try (0..<4).map { _ in try stage.puppet("user=nobody") }
    #expect(try puppets.ask("connect") == ["ok", "ok", "ok", "ok"])
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try puppets.ask("state").count("open") == 4)
    #expect(try Database.migrations(stage.store) == Migration.all.count - 1)
    #expect(!Files.exists(stage.store + "-lock"))
    withExtendedLifetime(running) {}
  }

  @Test func `the breakers of a damaged old store survive its repair`() throws {
    let stage = try Stage()
    let boot = try #require(stage.clock.clock.bootID)
    try make(
      stage, version: 1,
      """
      INSERT INTO breaker (name, created_at_ms, state, trips, boot, code_policy, successes) VALUES
        ('one', 1799999990000, 0, 3, \(boot), 'probes=2', 70), ('two', 1799999990000, 0, 0, 1, NULL, 8);
      INSERT INTO event (at_ms, name, kind, from_word, to_word, pid, program) VALUES
        (1700000000000, 'one', 0, 'closed', 'open', 1, '');
      """)
    let root = try Database.value(
      stage.store, "SELECT rootpage FROM sqlite_schema WHERE name = 'event'")
    let pageSize = try #require(Int(try Database.value(stage.store, "PRAGMA page_size")))
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    var bytes = try Files.read(stage.store)
    let start = (try #require(Int(root)) - 1) * pageSize
    for index in start..<start + pageSize { bytes[index] = 0x5A }
    try Files.overwrite(stage.store, bytes)
    let findings = try stage.sharedStore().repair()
    #expect(findings.allSatisfy { $0.isWell }, "\(findings)")
    let one = try #require(try stage.sharedStore().snapshot(of: "one"))
    #expect(one.policy.probes == 2)
    #expect(one.trips == 3)
    #expect(one.totals.successes == 70)
    #expect(try stage.sharedStore().snapshot(of: "two")?.totals.successes == 8)
  }

  @Test func `an upgraded store keeps its breakers, its history and the probes under way`() throws {
    let stage = try Stage()
    let boot = try #require(stage.clock.clock.bootID)
    try make(
      stage, version: 1,
      """
      INSERT INTO breaker (id, name, state, generation, boot, code_policy, last_lease, leases) VALUES
        (1, 'probed', 2, 7, \(boot), 'probes=1', 5, 1);
      INSERT INTO lease (breaker, id, generation, deadline_ns) VALUES (1, 5, 7, 9000000000000);
      INSERT INTO event (id, at_ms, name, kind, from_word, to_word, pid, program, previous) VALUES
        (41, 1, 'probed', 0, 'closed', 'open', 8, 'a', NULL),
        (43, 3, 'probed', 0, 'open', 'half_open', 8, 'a', 41);
      """)
    let store = stage.sharedStore()
    let probed = try #require(try store.snapshot(of: "probed"))
    #expect(probed.leases.count == 1)
    #expect(!probed.permits)
    #expect(try store.history(of: "probed").map(\.id) == [41, 43])
    #expect(try Database.integrity(stage.store) == "ok")
  }

  @Test func `an upgraded store belongs to no fleet, and can join one`() throws {
    let stage = try Stage()
    let boot = try #require(stage.clock.clock.bootID)
    try make(
      stage, version: 1,
      """
      INSERT INTO breaker (id, name, state, generation, boot, code_policy) VALUES
        (1, 'pay', 0, 9, \(boot), 'max-failures=1 fleet-spread=1s');
      INSERT INTO event (id, at_ms, name, kind, from_word, to_word, pid, program) VALUES
        (41, 1, 'pay', 0, 'open', 'closed', 8, 'a');
      """)
    let store = stage.sharedStore()
    #expect(try store.fleetStanding() == nil)
    #expect(try store.history().map(\.host) == [nil])
    #expect(try store.history().map(\.author) == ["a (pid 8)"])
    #expect(try store.snapshot(of: "pay")?.suspectedAt == nil)
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    _ = try store.breaker("pay").acquire().fail()
    #expect(try relay.apply([.recovery(name: "pay", host: "b")], position: nil) == [.applied])
    #expect(try Database.migrations(stage.store) == Migration.all.count - 1)
    #expect(try Database.integrity(stage.store) == "ok")
  }
}
