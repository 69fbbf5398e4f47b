import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// A command to a fleet that a store cannot pass on.
@Suite(.timeLimit(.minutes(60))) struct RefusedCommandTests {
  private let directory: TemporaryDirectory
  private let storages: [(name: String, storage: any BreakerStorage)]

  init() throws {
    directory = try TemporaryDirectory()
    let file = SQLiteStorage(path: directory.store, lockTimeout: .seconds(60), program: "test")
    try file.open(mayCreate: true)
    let memory = MemoryStorage(clock: .system, program: "test", isGone: { _ in false })
    storages = [("file", file), ("memory", memory)]
  }

  private static let command = GivenCommand(.reset, reason: nil, author: "ann")

  /// Gives a command that changes everything that a step can change.
  private func give(to name: String, in storage: any BreakerStorage) throws {
    _ = try storage.transact(name, orCreate: true, wait: .usual) { draft in
      draft.breaker.record.totals.failures += 1
      draft.note(.policy(from: "", to: "probes=2"), reason: nil)
      draft.declaration = "probes=2"
      draft.command = Self.command
    }
  }

  @Test func `a refused command leaves no breaker, no event and no other trace`() throws {
    for (name, storage) in storages {
      let before = try storage.changes(since: nil).revision
      #expect(throws: StoreError.self, "\(name)") { try give(to: "api", in: storage) }
      #expect(try storage.find("api") == nil, "\(name)")
      #expect(try storage.list(beginningWith: "", in: nil).isEmpty, "\(name)")
      #expect(try storage.events(after: 0, of: nil, limit: 9).events.isEmpty, "\(name)")
      #expect(try storage.declarations(of: "api").isEmpty, "\(name)")
      #expect(try storage.changes(since: nil).revision == before, "\(name)")
    }
  }

  @Test func `a refused command leaves the breaker that it is for as it was`() throws {
    for (name, storage) in storages {
      let done = try storage.transact("api", orCreate: true, wait: .usual) {
        $0.breaker.record.totals.failures = 7
      }
      #expect(throws: StoreError.self, "\(name)") { try give(to: "api", in: storage) }
      let after = try storage.find("api")
      #expect(after?.record == done?.breaker.record, "\(name)")
      #expect(after?.revision == done?.breaker.revision, "\(name)")
      #expect(try storage.events(after: 0, of: nil, limit: 9).events.isEmpty, "\(name)")
    }
  }

  @Test func `of several commands in one transaction all are refused`() throws {
    for (name, storage) in storages {
      let steps = [
        NamedStep("a") { $0.breaker.record.totals.failures = 7 },
        NamedStep("b") { $0.command = Self.command },
      ]
      #expect(throws: StoreError.self, "\(name)") {
        _ = try storage.transact(together: steps, mustBeNew: true)
      }
      #expect(try storage.list(beginningWith: "", in: nil).isEmpty, "\(name)")
    }
  }

  @Test func `a store without a higher stamp refuses commands too`() throws {
    for (name, storage) in storages {
      var request = FleetRequest(fleet: "prod", host: "a")
      _ = try storage.carryOut(request)
      try give(to: "api", in: storage)
      request.news = [
        .command(
          FleetCommand(
            name: "api", action: .reset, reason: nil, author: "eve", host: "b",
            stamp: FleetCommand.highestStamp, age: .zero))
      ]
      _ = try storage.carryOut(request)
      #expect(throws: StoreError.self, "\(name)") { try give(to: "web", in: storage) }
      #expect(try storage.find("web") == nil, "\(name)")
      #expect(try storage.fleet()?.waiting == 1, "\(name)")
    }
  }
}
