import BreakerCore
@testable import BreakerStore
import SharedBreaker
import TestSupport
import Testing

/// Repairs during which another process acts.
@Suite struct RepairRaceTests {
  /// A store for a repair, during which an action happens once.
  ///
  /// The action runs at the first reading of the clock at which `isTime` holds.
  private func store(
    _ stage: Stage, when isTime: @escaping @Sendable () -> Bool,
    _ act: @escaping @Sendable () -> Void
  ) -> SharedStore {
    let clock = stage.clock.clock
    let hasBegun = Guarded(false)
    let look: @Sendable () -> Void = {
      guard hasBegun.withLock({ $0 }), isTime() else { return }
      hasBegun.withLock { $0 = false }
      act()
    }
    // The wall clock is also read under the lock of the store, where no other process can act.
    let looked = StoreClock(
      bootNanoseconds: {
        look()
        return clock.instant.nanoseconds
      },
      wallMilliseconds: { clock.wallMilliseconds },
      bootID: {
        look()
        return "boot 1"
      })
    let store = SharedStore(path: stage.store, options: StoreOptions(clock: looked))
    hasBegun.withLock { $0 = true }
    return store
  }

  private func makeStore(_ stage: Stage) throws {
    let store = stage.sharedStore()
    try store.breaker("api", policy: BreakerPolicy(maxFailures: 3)).trip()
    store.close()
    try Database.fold(stage.store)
  }

  private func names(_ stage: Stage) -> [String] {
    Files.names(in: stage.directory.file("state"))
  }

  /// Whether the new store exists, with nothing in it yet.
  private func isNewStoreMade(_ stage: Stage) -> Bool {
    names(stage).contains { $0.contains(".new-") && $0.hasSuffix("-counters") }
  }

  @Test func `a repair leaves alone a file that replaced the one it looked at`() throws {
    let stage = try Stage()
    try makeStore(stage)
    let log = stage.store + "-wal"
    try Files.link(log, to: stage.directory.file("nowhere"))
    let other = stage.directory.file("other")
    try Files.write(other, [])
    try Files.changeMode(other, to: 0o600)
    let store = store(stage, when: { true }, { try? Files.rename(other, to: log) })
    let findings = try store.repair()
    #expect(!Files.exists(other))
    let files = try #require(findings.first { $0.check == "files" })
    #expect(files.repair?.contains("somebody else has already done it") == true, "\(files)")
    #expect(try Files.permissions(of: log).isRegular)
    #expect(!names(stage).contains { $0.contains(".corrupt-") }, "\(names(stage))")
  }

  @Test func `a repair leaves alone the store that another repair has begun`() throws {
    let stage = try Stage()
    try makeStore(stage)
    try Files.overwrite(stage.store, Array(repeating: 0x5A, count: 4_000))
    let others = Guarded<[StoreFinding]?>(nil)
    let store = store(stage, when: { isNewStoreMade(stage) }) {
      let findings = try? stage.sharedStore().repair()
      others.withLock { $0 = findings }
    }
    let findings = try store.repair()
    #expect(others.withLock { $0 }?.allSatisfy(\.isWell) == true)
    let integrity = try #require(findings.first { $0.check == "integrity" })
    #expect(integrity.repair?.contains("somebody else has already done it") == true, "\(integrity)")
    #expect(integrity.isWell)
    let aside = names(stage).filter { $0.contains(".corrupt-") && !$0.hasSuffix("-counters") }
    #expect(aside.count == 1, "\(aside)")
  }

  @Test func `a repair never moves or deletes the lock file`() throws {
    let stage = try Stage()
    try makeStore(stage)
    let before = try #require(StoreFile.identity(of: stage.store + "-lock"))
    try stage.damageHistory()
    #expect(try stage.sharedStore().repair().allSatisfy(\.isWell))
    #expect(StoreFile.identity(of: stage.store + "-lock") == before)
    #expect(names(stage).filter { $0.contains("-lock") } == ["breakers.db-lock"])
    #expect(names(stage).contains { $0.contains(".corrupt-") })
  }

  @Test func `a repair lets no process write to the damaged store`() throws {
    let stage = try Stage()
    try makeStore(stage)
    try stage.damageHistory()
    let isRefused = Guarded<Bool?>(nil)
    let store = store(stage, when: { isNewStoreMade(stage) }) {
      let writer = try? Holder(stage.store, "BEGIN IMMEDIATE")
      isRefused.withLock { $0 = writer == nil }
    }
    let findings = try store.repair()
    #expect(isRefused.withLock { $0 } == true)
    #expect(findings.first { $0.check == "integrity" }?.isWell == true)
  }
}
