import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// Processes that open one store agree with it on the boot, by the host's own clocks.
@Suite struct BootAgreementTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func storage() -> SQLiteStorage { SQLiteStorage(path: directory.store, program: "test") }

  private func number() throws -> String {
    try Database.value(directory.store, "SELECT boot FROM store")
  }

  /// Makes the note look like one of another boot.
  ///
  /// A container's boot id together with a changed wall clock has the same effect.
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

  @Test func `a process that has the store open attests the boot to others`() throws {
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

  @Test
  func `a different boot id and boot time mean a reboot if no process has the store open`() throws {
    let first = storage()
    try first.open(mayCreate: true)
    let before = try number()
    first.close()
    try disguiseNote()
    let second = storage()
    try second.open(mayCreate: false)
    #expect(try number() != before)
  }

  @Test
  func `an unknown boot id counts as the same boot and is noted once it can be read`() throws {
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

  @Test func `times ahead of the clock mean a reboot even if no boot id is known`() throws {
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
    // The open time is carried over by the wall clock, and never lengthened.
    #expect(record.openRemaining(at: StoreClock.system.instant) ?? .max <= 600_000_000_000)
  }

  @Test
  func `a transaction succeeds after the store's lineage, boot or identity has changed`() throws {
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
