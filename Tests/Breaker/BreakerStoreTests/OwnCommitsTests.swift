import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// A transaction after another one of the same process.
@Suite struct OwnCommitsTests {
  @Test(.timeLimit(.minutes(60)))
  func `a transaction finds what another program wrote since the process's last one`() throws {
    let directory = try TemporaryDirectory()
    let storage = SQLiteStorage(path: directory.store, program: "test")
    func failures() throws -> Int64? {
      try storage.transact("api", orCreate: true, wait: .usual) { draft in
        draft.breaker.record.totals.failures += 1
        return draft.breaker.record.totals.failures
      }?.answer
    }
    for round in 0..<rounds(200) {
      _ = try failures()
      #expect(try failures() == (try failures() ?? 0) - 1)
      try Database.rows(directory.store, "UPDATE breaker SET failures = 1000 WHERE name = 'api'")
      #expect(try failures() == 1001, "edited \(round)")
      try Database.rows(directory.store, "DELETE FROM breaker")
      #expect(try failures() == 1, "deleted \(round)")
      try Database.rows(
        directory.store,
        "DELETE FROM breaker; INSERT INTO breaker (name, failures) VALUES ('api', 50)")
      #expect(try failures() == 51, "made again \(round)")
      try Database.rows(directory.store, "UPDATE breaker SET revision = revision + 1000")
      let before = try storage.find("api")?.revision ?? 0
      _ = try failures()
      #expect(try storage.find("api")?.revision ?? 0 > before, "revised \(round)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a transaction finds what another process wrote since the process's last one`() throws {
    let directory = try TemporaryDirectory()
    let here = SQLiteStorage(path: directory.store, program: "here")
    let there = SQLiteStorage(path: directory.store, program: "there")
    for round in 0..<rounds(200) {
      for (index, storage) in [here, here, there, here, there, there].enumerated() {
        let transacted = try storage.transact("api", orCreate: true, wait: .usual) { draft in
          draft.breaker.record.totals.failures += 1
        }
        let expected = Int64(round * 6 + index + 1)
        #expect(transacted?.breaker.record.totals.failures == expected)
        #expect(transacted?.breaker.revision == expected)
      }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a transaction carries over the times of an earlier boot`() throws {
    let stage = try Stage()
    let storage = SQLiteStorage(
      path: stage.store, clock: stage.clock.clock, program: "test")
    let until = stage.clock.clock.instant.nanoseconds + 60_000_000_000
    _ = try storage.transact("api", orCreate: true, wait: .usual) { draft in
      draft.breaker.record.state = .open
      draft.breaker.record.openUntil = Instant(nanoseconds: until)
      draft.breaker.record.openNanoseconds = 60_000_000_000
      draft.breaker.record.openedAtMilliseconds = draft.now.wallMilliseconds
    }
    stage.clock.reboot(after: .seconds(10))
    let read = try #require(try storage.find("api")).record.openUntil
    let transacted = try storage.transact("api", orCreate: true, wait: .usual) { draft in
      draft.breaker.record.openUntil
    }
    #expect(transacted?.answer == read)
    #expect(read != Instant(nanoseconds: until))
  }
}
