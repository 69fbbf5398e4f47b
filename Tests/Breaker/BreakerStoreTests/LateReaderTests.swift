import SharedBreaker
import TestSupport
import Testing

/// The connection for reading beside a writer, which is opened when it is first needed.
@Suite struct LateReaderTests {
  @Test func `a process that only makes calls has the store's file open once`() throws {
    let stage = try Stage()
    let maker = stage.sharedStore()
    try maker.breaker("api").trip()
    maker.close()
    let store = stage.sharedStore()
    #expect(try store.breaker("api").snapshot().state == .open)
    // The file, its index, and the log, which is open once more for the marks on it, and once more to claim.
    #expect(Files.openDescriptors(of: stage.store) == 5)
    #expect(try store.names() == ["api"])
    #expect(Files.openDescriptors(of: stage.store) == 8)
  }

  @Test func `a connection that is opened late reads the file that the first one has open`() throws
  {
    let stage = try Stage()
    let maker = stage.sharedStore()
    try maker.breaker("before").trip()
    maker.close()
    let store = stage.sharedStore()
    #expect(try store.breaker("before").snapshot().state == .open)
    let other = stage.directory.file("other.db")
    let otherStore = SharedStore(path: other, options: StoreOptions(clock: stage.clock.clock))
    try otherStore.breaker("after").trip()
    otherStore.close()
    try Database.rows(other, "PRAGMA wal_checkpoint(TRUNCATE)")
    // The clock stands still, so the change has not been noticed when the next line runs.
    try Files.rename(other, to: stage.store)
    #expect(try store.names() == ["after"])
    #expect(try store.existingBreaker("before") == nil)
    #expect(try store.existingBreaker("after") != nil)
  }
}
