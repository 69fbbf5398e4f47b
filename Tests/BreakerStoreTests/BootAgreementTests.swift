import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// Agreeing with a store on the boot, on the host's own clocks.
@Suite struct `Processes that open one store` {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func storage() -> SQLiteStorage { SQLiteStorage(path: directory.store, program: "test") }

  private func number() throws -> String {
    try Database.value(directory.store, "SELECT boot FROM store")
  }

  /// Makes the note look like that of another boot, as a container's boot id and a wall clock that was
  /// set would.
  private func disguiseNote() throws {
    try Database.rows(
      directory.store,
      "UPDATE store SET boot_id = 1, booted_at_ms = booted_at_ms - 3600000, boot_seen_ns = 0")
  }

  private func trip(_ storage: SQLiteStorage) throws {
    _ = try storage.transact("api", orCreate: true, wait: .usual) { draft in
      let policy = draft.breaker.policy
      draft.apply { record, now in
        record.tripped(for: .seconds(600), reason: nil, at: now, policy: policy, jitter: 0)
      }
    }
  }

  @Test func `a process that has it open attests the boot to others`() throws {
    let first = storage()
    try trip(first)
    let before = try number()
    try disguiseNote()
    let second = storage()
    let seen = try #require(try second.find("api")?.record)
    #expect(try seen.openUntil == first.find("api")?.record.openUntil)
    #expect(try number() == before)
    withExtendedLifetime(first) {}
  }

  @Test func `without one, another boot id and another time of booting mean a reboot`() throws {
    let first = storage()
    try first.open(mayCreate: true)
    let before = try number()
    first.close()
    try disguiseNote()
    let second = storage()
    try second.open(mayCreate: false)
    #expect(try number() != before)
  }

  @Test func `an unread boot id is taken for the same boot, and noted when it can be read`() throws
  {
    let first = storage()
    try trip(first)
    let before = try number()
    let openUntil = try first.find("api")?.record.openUntil
    first.close()
    try Database.rows(
      directory.store, "UPDATE store SET boot_id = NULL, booted_at_ms = booted_at_ms - 3600000")
    let second = storage()
    #expect(try second.find("api")?.record.openUntil == openUntil)
    #expect(try number() == before)
    #expect(try Database.value(directory.store, "SELECT boot_id FROM store") != "NULL")
  }

  @Test func `times ahead of the clock mean a reboot though no boot id is known`() throws {
    let first = storage()
    try trip(first)
    first.close()
    try Database.rows(
      directory.store,
      """
      UPDATE store SET boot_id = NULL;
      UPDATE breaker SET open_until_ns = open_until_ns + 1000000000000000000
      """)
    let before = try number()
    let second = storage()
    let record = try #require(try second.find("api")?.record)
    #expect(try number() != before)
    // Carried over by the wall clock, and never for longer than it was to be.
    #expect(record.openRemaining(at: StoreClock.system.instant) ?? .max <= 600_000_000_000)
  }

  @Test func `a transaction goes on after something has changed what the store says of itself`()
    throws
  {
    let storage = storage()
    try trip(storage)
    for column in ["lineage", "boot", "identity"] {
      let before = try #require(try storage.find("api")?.lineage)
      try Database.rows(directory.store, "UPDATE store SET \(column) = \(column) + 1")
      try trip(storage)
      let after = try #require(try storage.find("api")?.lineage)
      #expect((before != after) == (column == "lineage"))
    }
  }
}
