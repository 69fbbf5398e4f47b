import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

@Suite struct ConnectionTests {
  private func connection(_ stage: Stage) throws -> Connection {
    try stage.sharedStore().connect()
    return try Connection(path: stage.store, lockTimeout: .seconds(1))
  }

  @Test func `a connection does not run a statement for which a value was lost`() throws {
    let connection = try connection(try Stage())
    let statement = try connection.prepare("SELECT ?1 IS NULL")
    // Stands for a value for which there was no memory: there is no such parameter.
    statement.bind(2, "x")
    #expect(throws: StoreError.self) { _ = try statement.next() }
    statement.bind(1, "x")
    #expect(try statement.first { $0.integer(0) } == 0)
  }

  @Test func `a connection does not return a row of which a value was lost`() throws {
    let connection = try connection(try Stage())
    let statement = try connection.prepare("SELECT ?1, 7")
    #expect(throws: StoreError.self) {
      _ = try statement.first { row in
        // Stands for a text for which there was no memory: nothing can be bound at this point.
        row.bind(1, "x")
        return row.integer(1)
      }
    }
    #expect(try statement.first { $0.integer(1) } == 7)
  }

  @Test func `a connection first leaves a transaction that could not be left before`() throws {
    let stage = try Stage()
    let connection = try connection(stage)
    try connection.execute("BEGIN IMMEDIATE; DELETE FROM store")
    #expect(try connection.read { () throws(StoreError) in 42 } == 42)
    #expect(try Database.value(stage.store, "SELECT count(*) FROM store") == "1")
    try connection.execute("BEGIN")
    try connection.write { () throws(StoreError) in }
    // Another connection can write now.
    _ = try Holder(stage.store, "BEGIN IMMEDIATE")
  }

  /// A writer that lost SQLite's lock, and then its processor between the two copies of the index's header.
  @Test func `a process that reads does not recover the index while another one writes`() throws {
    let stage = try Stage()
    // It keeps the index in use, so the next one does not begin a new one.
    let user = try stage.puppet()
    #expect(try user.ask("run fail") == "failed")
    let index = stage.store + "-shm"
    let whole = try Array(Files.read(index)[..<96])
    let torn = whole[..<48] + Array(repeating: 0, count: 48)
    let log = try LogFile(path: stage.store + "-wal", mayWrite: true)
    #expect(!log.isClaimedByOthers())
    try Files.overwrite(index, Array(torn))
    #expect(try stage.puppet("lock-timeout=50").ask("snapshot").contains(" failures=0 "))
    #expect(try Files.read(index)[..<96] == torn)
    try Files.overwrite(index, whole)
    log.giveBackClaim()
    #expect(try user.ask("snapshot").contains(" failures=1 "))
    #expect(try stage.puppet().ask("snapshot").contains(" failures=1 "))
  }
}
