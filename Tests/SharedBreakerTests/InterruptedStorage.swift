import BreakerCore
import TestSupport

@testable import BreakerStore

/// A storage in memory where something else can happen, once, around a look-up or a transaction.
final class InterruptedStorage: BreakerStorage {
  private let memory: MemoryStorage
  private let afterFind = Interruption()
  private let beforeTransaction = Interruption()
  private let afterTransaction = Interruption()

  init(_ memory: MemoryStorage) { self.memory = memory }

  func afterNextFind(_ body: @escaping @Sendable () -> Void) { afterFind.set(body) }
  func beforeNextTransaction(_ body: @escaping @Sendable () -> Void) {
    beforeTransaction.set(body)
  }
  func afterNextTransaction(_ body: @escaping @Sendable () -> Void) { afterTransaction.set(body) }

  func find(_ name: String) -> StoredBreaker? {
    defer { afterFind.happen() }
    return memory.find(name)
  }

  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) -> Transacted<Answer>? {
    let before = memory.currentFingerprint()
    beforeTransaction.happen()
    defer { afterTransaction.happen() }
    var transacted = memory.transact(name, orCreate: orCreate, wait: wait, body)
    transacted?.fingerprints = Fingerprints(before: before, after: memory.currentFingerprint())
    return transacted
  }

  var fingerprint: UnsafePointer<UInt64> { unsafe memory.fingerprint }
  var listeners: Listeners { memory.listeners }

  func open(mayCreate: Bool) {}
  func changes(since revision: Int64?) -> StoreChanges { memory.changes(since: revision) }
  func list(beginningWith prefix: String, in state: BreakerState?) -> [ListedBreaker] {
    memory.list(beginningWith: prefix, in: state)
  }
  func read(_ listed: some Collection<ListedBreaker>) -> [StoredBreaker?] { memory.read(listed) }
  func transact(together steps: [NamedStep], mustBeNew: Bool) -> TransactedTogether {
    memory.transact(together: steps, mustBeNew: mustBeNew)
  }
  func delete(_ name: String, ifStill version: StoredVersion?) -> Bool {
    memory.delete(name, ifStill: version)
  }
  func history(of name: String?, sinceMilliseconds: Int64?, limit: Int?) -> [StoredEvent] {
    memory.history(of: name, sinceMilliseconds: sinceMilliseconds, limit: limit)
  }
  func events(after id: Int64, of name: String?, limit: Int) -> EventPage {
    memory.events(after: id, of: name, limit: limit)
  }
  func stepHook(_ step: HookStep) -> HookTurn { memory.stepHook(step) }
  func declarations(of name: String) -> [StoredDeclaration] { memory.declarations(of: name) }
  func counters(of breaker: StoredBreaker) -> Counters? { nil }
  func upToDate(_ breaker: StoredBreaker) -> StoredBreaker { breaker }
  func checkIdentity() {}
  func proveWritable() {}
  func finish() {}
  func close() {}
  func willFork() { memory.willFork() }
  func didFork() { memory.didFork() }
}

/// Something that happens at most once.
private final class Interruption: Sendable {
  private let body = Guarded<(@Sendable () -> Void)?>(nil)

  func set(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0 = body } }

  func happen() {
    let body = body.withLock { body in
      defer { body = nil }
      return body
    }
    body?()
  }
}
