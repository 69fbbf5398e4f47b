import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// The changes in a store since a revision.
@Suite struct ChangesTests {
  @Test func `a breaker is read by its id only if the id still belongs to the name`() throws {
    let directory = try TemporaryDirectory()
    let storage = SQLiteStorage(path: directory.store, program: "test")
    _ = try storage.transact("api", orCreate: true, wait: .usual) { _ in }
    let listed = try #require(storage.list(beginningWith: "", in: nil).first)
    let read = try storage.read([listed, ListedBreaker(id: listed.id, name: "other")])
    #expect(read.map { $0?.name } == ["api", nil])
  }

  @Test(.timeLimit(.minutes(60)))
  func `a transaction that only adds an event raises the revision too`() throws {
    let directory = try TemporaryDirectory()
    let storage = SQLiteStorage(path: directory.store, program: "test")
    _ = try storage.transact("api", orCreate: true, wait: .usual) { _ in }
    let before = try storage.changes(since: nil)
    _ = try storage.transact("api", orCreate: false, wait: .usual) { draft in
      draft.note(.mode(from: .automatic, to: .automatic), reason: nil)
    }
    let after = try storage.changes(since: before.revision)
    #expect(after.revision == before.revision + 1)
    // Otherwise every process would mistake the commit for one of a foreign program.
    #expect(after.continuity == before.continuity)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the changes since a revision are complete, however old the revision is`() throws {
    let directory = try TemporaryDirectory()
    let storage = SQLiteStorage(path: directory.store, program: "test")
    func change(_ name: String) throws {
      _ = try storage.transact(name, orCreate: true, wait: .usual) { draft in
        draft.breaker.record.totals.failures += 1
      }
    }
    for round in 0..<300 {
      try change("always")
      if round % 7 == 0 { try change("sometimes") }
      if round == 100 { try change("once") }
      if round == 200 { #expect(try storage.delete("once")) }
    }
    let all = try storage.all()
    let newest = all.map(\.revision).max() ?? 0
    for since in 0...newest + 2 {
      let changes = try storage.changes(since: since)
      let expected = all.filter { $0.revision > since }.map(\.name)
      #expect(changes.breakers.map(\.name).sorted() == expected, "since \(since)")
      #expect(changes.revision == newest, "since \(since)")
      #expect(changes.deletedRevision > 100)
    }
    #expect(try storage.changes(since: nil).revision == newest)
    #expect(try storage.changes(since: nil).breakers.isEmpty)
    for name in ["always", "sometimes"] { #expect(try storage.delete(name)) }
    let empty = try storage.changes(since: newest)
    #expect(empty.breakers.isEmpty)
    #expect(empty.revision == newest + 2)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a store has small pages, and its log stays short through thousands of changes`() throws {
    let directory = try TemporaryDirectory()
    let storage = SQLiteStorage(path: directory.store, program: "test")
    for _ in 0..<9_000 {
      _ = try storage.transact("api", orCreate: true, wait: .usual) { draft in
        draft.breaker.record.totals.failures += 1
      }
    }
    #expect(try Database.value(directory.store, "PRAGMA page_size") == "1024")
    #expect(try Files.read(directory.store + "-wal").count < 5_000_000)
  }
}
