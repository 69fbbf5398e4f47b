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

  @Test func `a statement that keeps bound values runs with the latest ones`() throws {
    let connection = try connection(try Stage())
    let statement = try connection.prepare("SELECT ?1, ?2 || '', ?3")
    func run(_ number: Int64?, _ text: String?, _ blob: [UInt8]?) throws {
      var binder = KeptBinder(statement)
      binder.bind(number)
      binder.bind(text)
      binder.bind(blob)
      #expect(
        try statement.first {
          $0.integerOrNil(0) == number && $0.text(1) == text && $0.blob(2) == blob
        } == true)
    }
    try run(7, "x", [1])
    try run(7, "x", [1])
    try run(nil, nil, nil)
    try run(nil, nil, nil)
    try run(0, "", [])
    try run(8, "y", [2, 3])
    // Stands for a value for which there was no memory: there is no such parameter.
    statement.bind(4, 1)
    #expect(throws: StoreError.self) { _ = try statement.next() }
    try run(8, "y", [2, 3])
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
    try whileClaimed(by: try claimant(stage)) {
      try Files.overwrite(index, Array(torn))
      #expect(try stage.puppet("lock-timeout=50").ask("snapshot").contains(" failures=0 "))
      #expect(try Files.read(index)[..<96] == torn)
      try Files.overwrite(index, whole)
    }
    #expect(try user.ask("snapshot").contains(" failures=1 "))
    #expect(try stage.puppet().ask("snapshot").contains(" failures=1 "))
  }

  @Test func `a claim lasts through a checkpoint and keeps others from writing`() throws {
    let stage = try Stage()
    let other = try connection(stage)
    let claimant = try claimant(stage)
    try whileClaimed(by: claimant) {
      for _ in 0..<2 {
        try claimant.execute("PRAGMA wal_checkpoint(FULL)")
        #expect(throws: StoreError.self) { try other.execute("BEGIN IMMEDIATE") }
        #expect(try stage.puppet("lock-timeout=50").ask("run fail") == "failed")
        #expect(try other.integer("SELECT count(*) FROM breaker") == 0)
      }
    }
    try other.execute("BEGIN IMMEDIATE")
  }

  @Test func `a connection that is closed or refused does not end the claim of another`() throws {
    let stage = try Stage()
    let other = try connection(stage)
    try whileClaimed(by: try claimant(stage)) {
      let refused = try claimant(stage)
      #expect(throws: StoreError.self) { try refused.claiming { () throws(StoreError) in } }
      _ = try claimant(stage)
      #expect(throws: StoreError.self) { try other.execute("BEGIN IMMEDIATE") }
    }
  }

  @Test func `a creator keeps others from writing even without SQLite's lock`() throws {
    let stage = try Stage()
    try Files.makeDirectory(stage.directory.file("state"))
    try Files.write(stage.store, [])
    let creator = try Connection(path: stage.store, lockTimeout: .zero)
    #expect(try creator.text("PRAGMA journal_mode=WAL") == "wal")
    try creator.execute("BEGIN IMMEDIATE; CREATE TABLE first (number)")
    var files = OpenFiles(path: stage.store, named: stage.store)
    files.noteLog()
    files.hold(by: creator)
    // Closing it drops all of SQLite's locks on it.
    _ = try Files.read(stage.store + "-shm")
    let other = try stage.puppet("lock-timeout=50")
    #expect(try other.ask("run fail") == "failed")
    #expect(try other.ask("health").contains("busy"))
    try creator.execute("COMMIT")
    #expect(try Database.integrity(stage.store) == "ok")
  }

  /// A connection that has the log open, and does not wait for locks.
  private func claimant(_ stage: Stage) throws -> Connection {
    let connection = try Connection(path: stage.store, lockTimeout: .zero)
    _ = try connection.integer("SELECT count(*) FROM store")
    return connection
  }

  private func whileClaimed(by connection: Connection, _ body: () throws -> Void) throws {
    try connection.claiming { () throws(StoreError) in Result { try body() } }.get()
  }
}
