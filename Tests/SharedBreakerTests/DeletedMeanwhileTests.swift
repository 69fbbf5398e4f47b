import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore
@testable import SharedBreaker

@Suite struct `A breaker deleted while it is being looked up` {
  @Test func `does not come back`() throws {
    let stage = try Stage()
    let clock = stage.clock.clock
    let storage = Interrupted(MemoryStorage(clock: clock, program: "test"))
    let engine = Engine(
      storage: storage, options: StoreOptions(clock: clock), program: "test")
    let other = engine.cell("other")
    _ = try engine.known(other)
    _ = storage.inner.transact("api", orCreate: true, wait: .usual) { draft in
      draft.apply { record, now in
        record.modeSet(to: .forcedOpen, for: nil, reason: nil, by: "test", at: now)
      }
    }
    _ = try engine.known(other)
    let cell = engine.cell("api")
    storage.interruption = {
      _ = storage.inner.delete("api", ifStill: nil)
      _ = try? engine.known(cell)
    }
    _ = try engine.known(cell)
    #expect(engine.isCurrent)
    #expect(try engine.known(cell).exists == false)
    withExtendedLifetime(engine) {}
  }
}

@Suite struct `A breaker made while it is being looked up` {
  @Test func `is not taken for one that is not there`() throws {
    let stage = try Stage()
    let clock = stage.clock.clock
    let storage = Interrupted(MemoryStorage(clock: clock, program: "test"))
    let engine = Engine(
      storage: storage, options: StoreOptions(clock: clock), program: "test")
    let cell = engine.cell("api")
    _ = try engine.known(engine.cell("other"))
    storage.interruption = {
      _ = storage.inner.transact("api", orCreate: true, wait: .usual) { draft in
        draft.breaker.codeWords = "slow-after=1s"
      }
      _ = try? engine.known(cell)
    }
    #expect(try engine.known(cell).exists)
    #expect(engine.isCurrent)
    #expect(cell.word.has(CellWord.measures))
    withExtendedLifetime(engine) {}
  }

  @Test func `is not taken for what it was before a commit that was not learned`() throws {
    let stage = try Stage()
    let clock = stage.clock.clock
    let storage = Interrupted(MemoryStorage(clock: clock, program: "test"))
    let engine = Engine(
      storage: storage, options: StoreOptions(clock: clock), program: "test")
    let cell = engine.cell("api")
    _ = try engine.step(cell) { draft, _ in draft.breaker.codeWords = "max-failures=1" }
    try engine.refresh()
    // All is forgotten and found again between the beginning of a transaction and its commit.
    storage.beforeCommit = {
      engine.cellsLock.withLock { engine.forgetAll() }
      _ = try? engine.known(cell)
    }
    _ = try engine.step(cell) { draft, policy in
      draft.apply { record, now in
        record.tripped(for: nil, reason: nil, at: now, policy: policy, jitter: 0)
      }
    }
    #expect(!engine.isCurrent || !cell.word.has(CellWord.permits))
    try engine.refresh()
    #expect(try engine.known(cell).breaker.record.state == .open)
    withExtendedLifetime(engine) {}
  }

  @Test func `is looked up at each call if its generation is too late for a word`() {
    var breaker = StoredBreaker(id: 1, name: "api", createdAtMilliseconds: 0)
    for (generation, isKept) in [(CellWord.latestGeneration, true), (1 << 41, false)] {
      breaker.record.generation = generation
      let word = Known(breaker, exists: true).word
      #expect(word.has(CellWord.permits) == isKept)
      if isKept { #expect(word.generation == generation) }
    }
  }
}

/// A storage in which something happens between a look-up and its use.
private final class Interrupted: BreakerStorage, @unchecked Sendable {
  let inner: MemoryStorage
  var interruption: (() -> Void)?
  var beforeCommit: (() -> Void)?

  init(_ inner: MemoryStorage) { self.inner = inner }

  var fingerprint: UnsafePointer<UInt64> { unsafe inner.fingerprint }
  func open(mayCreate: Bool) {}
  func changes(since revision: Int64?) -> StoreChanges { inner.changes(since: revision) }

  func find(_ name: String) -> StoredBreaker? {
    let found = inner.find(name)
    let interruption = interruption
    self.interruption = nil
    interruption?()
    return found
  }

  func list(beginningWith prefix: String, in state: BreakerState?) -> [ListedBreaker] {
    inner.list(beginningWith: prefix, in: state)
  }

  func read(_ listed: some Collection<ListedBreaker>) -> [StoredBreaker?] { inner.read(listed) }

  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) -> Transacted<Answer>? {
    let before = inner.currentFingerprint()
    beforeCommit?()
    beforeCommit = nil
    var transacted = inner.transact(name, orCreate: orCreate, wait: wait, body)
    transacted?.fingerprints = Fingerprints(before: before, after: inner.currentFingerprint())
    return transacted
  }

  func transact(together steps: [NamedStep], mustBeNew: Bool) -> TransactedTogether {
    inner.transact(together: steps, mustBeNew: mustBeNew)
  }

  func delete(_ name: String, ifStill version: StoredVersion?) -> Bool {
    inner.delete(name, ifStill: version)
  }

  func history(of name: String?, sinceMilliseconds: Int64?, limit: Int?) -> [StoredEvent] {
    inner.history(of: name, sinceMilliseconds: sinceMilliseconds, limit: limit)
  }

  func stepHook(_ step: HookStep) -> HookTurn { inner.stepHook(step) }

  var listeners: Listeners { inner.listeners }

  func events(after id: Int64, of name: String?, limit: Int) -> EventPage {
    inner.events(after: id, of: name, limit: limit)
  }

  func counters(of breaker: StoredBreaker) -> Counters? { nil }
  func upToDate(_ breaker: StoredBreaker) -> StoredBreaker { breaker }
  func declarations(of name: String) -> [StoredDeclaration] { inner.declarations(of: name) }
  func checkIdentity() {}
  func proveWritable() {}
  func finish() {}
  func close() {}
  func willFork() { inner.willFork() }
  func didFork() { inner.didFork() }
}
