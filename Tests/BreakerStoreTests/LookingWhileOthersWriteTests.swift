import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

@Suite struct `A look at a store that others write to` {
  @Test func `is not stopped by an index that is being written`() throws {
    let stage = try Stage()
    // In a process of its own: within one, all connections have the index in common.
    let writer = try stage.puppet()
    #expect(try writer.ask("trip") == "ok")
    let place = try StorePlace(stage.store)
    let reader = try #require(
      try Connection.reading(place, isAlone: true, lockTimeout: .milliseconds(100)))
    // One of the two copies of the header is ahead of the other one, as in the midst of a commit.
    var index = try Files.read(stage.store + "-shm")
    index[8] ^= 1
    try Files.overwrite(stage.store + "-shm", index)
    #expect(try reader.integer("SELECT trips FROM breaker") == 1)
    index[8] ^= 1
    try Files.overwrite(stage.store + "-shm", index)
    #expect(try writer.ask("reset") == "ok")
  }

  @Test func `sees one state, also when they begin the log anew`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    let place = try StorePlace(stage.store)
    let reader = try #require(
      try Connection.reading(place, isAlone: true, lockTimeout: .milliseconds(100)))
    // Twice, for a log can only begin anew with the commit after its checkpoint.
    for _ in 0..<2 {
      _ = try Holder(
        stage.store,
        "UPDATE breaker SET trips = trips + 1; PRAGMA wal_checkpoint(RESTART);"
          + "UPDATE breaker SET trips = trips + 1")
      #expect(try reader.integer("SELECT trips FROM breaker") == 1)
    }
  }
}
