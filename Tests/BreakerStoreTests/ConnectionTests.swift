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
}
