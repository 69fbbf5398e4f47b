import SharedBreaker
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

  @Test func `an upgraded store begins to count states with what its history records`() throws {
    let stage = try Stage()
    // The clock stands at 1,800,000,000 s, and the host has been up for 1,000 s.
    let boot = try #require(stage.clock.clock.bootID)
    try make(
      stage, version: 4,
      """
      INSERT INTO breaker (name, created_at_ms, changed_at_ms, state, trips, boot) VALUES
        ('new', 1799999990000, NULL, 0, 0, \(boot)), ('old', 1799999000000, 1799999960000, 1, 9, \(boot)),
        ('past', 1799990000000, NULL, 0, 0, 1), ('ahead', 1800000090000, NULL, 0, 0, \(boot));
      INSERT INTO event (at_ms, name, kind, from_word, to_word, pid, program) VALUES
        (1700000000000, 'old', 0, 'closed', 'open', 1, 'of one that was deleted'),
        (1799999500000, 'old', 0, 'closed', 'open', 1, ''),
        (1799999500000, 'old', 0, 'open', 'open', 1, ''),
        (1799999530000, 'old', 0, 'open', 'half_open', 1, ''),
        (1799999531000, 'old', 1, 'automatic', 'observe', 1, ''),
        (1799999532000, 'old', 2, 'half_open', 'closed', 1, ''),
        (1799999960000, 'old', 0, 'closed', 'open', 1, '');
      """)
    let store = stage.sharedStore()
    let new = try #require(try store.snapshot(of: "new"))
    #expect(new.timeInStates.closed == .seconds(10))
    let old = try #require(try store.snapshot(of: "old"))
    #expect(old.timeInStates.closed == .seconds(428))
    #expect(old.timeInStates.open == .seconds(30 + 40))
    #expect(old.timeInStates.halfOpen == .seconds(2))
    #expect(old.timeInState == .seconds(40))
    let counts = old.transitions
    #expect([counts.closed, counts.open, counts.halfOpen] == [1, 2, 1])
    #expect(try store.snapshot(of: "ahead")?.timeInStates.closed == .zero)
    // Nothing is known about its boot except that it was an earlier one.
    #expect(try store.snapshot(of: "past")?.timeInStates.closed == .seconds(10_000))
    // What came from a wall clock does not change when the clock is set.
    stage.clock.moveWall(by: .seconds(3_600))
    #expect(try stage.sharedStore().snapshot(of: "new") == new)
    #expect(try Database.integrity(stage.store) == "ok")
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs root, to become somebody else"))
  func `a user who may create nothing beside an old store can still bring it up to date`() throws {
    let stage = try Stage()
    try make(stage, version: 4, "")
    // Keeps the log and its index in place.
    let running = try Holder(stage.store, "SELECT count(*) FROM store")
    for suffix in ["", "-wal", "-shm"] { try Files.changeMode(stage.store + suffix, to: 0o666) }
    try Files.changeMode(stage.directory.file("state"), to: 0o755)
    let puppets = try (0..<4).map { _ in try stage.puppet("user=nobody") }
    #expect(try puppets.ask("connect") == ["ok", "ok", "ok", "ok"])
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try puppets.ask("state").count("open") == 4)
    #expect(try Database.migrations(stage.store) == Migration.all.count - 4)
    #expect(!Files.exists(stage.store + "-lock"))
    withExtendedLifetime(running) {}
  }

  @Test func `the breakers of a damaged old store survive its repair`() throws {
    let stage = try Stage()
    let boot = try #require(stage.clock.clock.bootID)
    try make(
      stage, version: 4,
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

  @Test func `an upgraded store keeps its history, its numbers and the probes under way`() throws {
    let stage = try Stage()
    let boot = try #require(stage.clock.clock.bootID)
    try make(
      stage, version: 6,
      """
      INSERT INTO breaker (id, name, state, generation, boot, code_policy, last_lease) VALUES
        (1, 'probed', 2, 7, \(boot), 'probes=2', 5), (2, 'open', 1, 4, \(boot), NULL, 3),
        (3, 'past', 2, 9, 1, NULL, 1);
      INSERT INTO lease VALUES (1, 4, NULL, NULL, NULL, 1000000000001),
        (1, 5, NULL, NULL, NULL, 9000000000000), (2, 3, NULL, NULL, NULL, 9000000000000),
        (3, 1, NULL, NULL, NULL, 9000000000000);
      INSERT INTO event (id, at_ms, name, kind, from_word, to_word, pid, program, previous) VALUES
        (41, 1, 'probed', 0, 'closed', 'open', 8, 'a', NULL),
        (42, 2, 'open', 0, 'closed', 'open', 8, 'a', NULL),
        (43, 3, 'probed', 0, 'open', 'half_open', 8, 'a', 41);
      """)
    let store = stage.sharedStore()
    let probed = try #require(try store.snapshot(of: "probed"))
    #expect(probed.leases.count == 2)
    #expect(!probed.permits)
    // A row of a lease could outlive its round, but the lease did not.
    #expect(try store.snapshot(of: "open")?.leases.isEmpty == true)
    #expect(try store.snapshot(of: "past")?.leases.isEmpty == true)
    #expect(try store.breaker("past").acquire().kind == .probe)
    let counts = try Database.rows(
      stage.store,
      "SELECT b.id, leases, count(l.id), min(l.generation) FROM breaker b"
        + " LEFT JOIN lease l ON l.breaker = b.id GROUP BY b.id ORDER BY b.id")
    #expect(counts == [["1", "2", "2", "7"], ["2", "0", "0", "NULL"], ["3", "0", "0", "NULL"]])
    stage.clock.advance(by: .seconds(1))
    try store.breaker("probed").force(.observe)
    let events = try Database.rows(
      stage.store, "SELECT id, kind, to_word, previous FROM event WHERE name = 'probed' ORDER BY id"
    )
    #expect(
      events == [
        ["41", "0", "open", "NULL"], ["43", "0", "half_open", "41"],
        ["44", "5", "timed_out", "43"], ["45", "0", "open", "44"], ["46", "1", "observe", "45"],
      ])
    #expect(try Database.integrity(stage.store) == "ok")
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE name = 'event_by_name'"
    #expect(try Database.value(stage.store, indexes) == "1")
  }

  @Test func `an upgraded store belongs to no fleet, and others do not end its open times`() throws
  {
    let stage = try Stage()
    let boot = try #require(stage.clock.clock.bootID)
    try make(
      stage, version: 8,
      """
      INSERT INTO breaker (
        id, name, state, generation, boot, code_policy, open_until_ns, open_length_ns) VALUES
        (1, 'open', 1, 4, \(boot), 'max-failures=1 fleet-spread=1s', 1030000000000, 30000000000),
        (2, 'closed', 0, 9, \(boot), 'max-failures=1 fleet-spread=1s', NULL, 0);
      INSERT INTO event (id, at_ms, name, kind, from_word, to_word, pid, program) VALUES
        (41, 1, 'open', 0, 'closed', 'open', 8, 'a');
      """)
    let store = stage.sharedStore()
    #expect(try store.fleetStanding() == nil)
    #expect(try store.history().map(\.host) == [nil])
    #expect(try store.history().map(\.author) == ["a (pid 8)"])
    #expect(try store.snapshot(of: "closed")?.suspectedAt == nil)
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    // Nobody has noted whether an operator opened it.
    #expect(try relay.apply([.recovery(name: "open", host: "b")], position: nil) == [.unneeded])
    #expect(try store.snapshot(of: "open")?.openEndsIn == .seconds(30))
    _ = try store.breaker("closed").acquire().fail()
    #expect(try relay.apply([.recovery(name: "closed", host: "b")], position: nil) == [.applied])
    #expect(try Database.migrations(stage.store) == Migration.all.count - 8)
    #expect(try Database.integrity(stage.store) == "ok")
  }
}
