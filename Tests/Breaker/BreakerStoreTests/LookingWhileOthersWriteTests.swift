import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

/// A look at a store to which other processes write.
@Suite struct LookingWhileOthersWriteTests {
  @Test func `a reader is not stopped by a log's index that is being written`() throws {
    let stage = try Stage()
    // In a process of its own, because all connections of one process share the index.
    let writer = try stage.puppet()
    #expect(try writer.ask("trip") == "ok")
    let place = try StoreSite(stage.store)
    let reader = try #require(
      try Connection.reading(place, isAlone: true, lockTimeout: .milliseconds(100)))
    // One of the two copies of the header is ahead of the other, as in the middle of a commit.
    var index = try Files.read(stage.store + "-shm")
    index[8] ^= 1
    try Files.overwrite(stage.store + "-shm", index)
    #expect(try reader.integer("SELECT trips FROM breaker") == 1)
    index[8] ^= 1
    try Files.overwrite(stage.store + "-shm", index)
    #expect(try writer.ask("reset") == "ok")
  }

  @Test func `a reader sees one state even if writers start the log over`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    let place = try StoreSite(stage.store)
    let reader = try #require(
      try Connection.reading(place, isAlone: true, lockTimeout: .milliseconds(100)))
    // Twice, because a log can only start over with the commit after its checkpoint.
    for _ in 0..<2 {
      _ = try Holder(
        stage.store,
        "UPDATE breaker SET trips = trips + 1; PRAGMA wal_checkpoint(RESTART);"
          + "UPDATE breaker SET trips = trips + 1")
      #expect(try reader.integer("SELECT trips FROM breaker") == 1)
    }
  }
}
