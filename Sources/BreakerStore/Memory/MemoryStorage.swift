package import BreakerCore
internal import CHost

/// Breakers in the memory of one process: for the time that a store cannot be used, and for tests.
///
/// Unchecked because the compiler does not know that the lock guards everything that changes.
@safe package final class MemoryStorage: BreakerStorage, @unchecked Sendable {
  let clock: StoreClock
  private let program: String
  private let isGone: @Sendable (ProcessIdentity) -> Bool
  let lock = Lock()

  var breakers: [NameBytes: StoredBreaker] = [:]
  private var declared: [NameBytes: [StoredDeclaration]] = [:]
  private var past = MemoryHistory()
  private var lastID: Int64 = 0
  private var hooks: [String: HookRecord] = [:]
  var fleetMemory = MemoryFleet()
  var revision: Int64 = 0
  private var deletedRevision: Int64 = 0
  let identity = Int64.random(in: .min ... .max)
  private let counter: UnsafeMutablePointer<UInt64>
  package let listeners = Listeners(path: nil)

  package init(
    clock: StoreClock, program: String,
    isGone: @escaping @Sendable (ProcessIdentity) -> Bool
  ) {
    self.clock = clock
    self.program = program
    self.isGone = isGone
    unsafe counter = .allocate(capacity: 1)
    unsafe counter.initialize(to: 1)
  }

  deinit { unsafe counter.deallocate() }

  package var fingerprint: UnsafePointer<UInt64> { unsafe UnsafePointer(counter) }

  package func open(mayCreate: Bool) {}
  package func finish() {}
  package func counters(of breaker: StoredBreaker) -> Counters? { nil }
  package func upToDate(_ breaker: StoredBreaker) -> StoredBreaker { breaker }
  package func checkIdentity() {}
  package func proveWritable() {}
  package func close() {}

  package func willFork() {
    lock.lock()
    listeners.willFork()
  }

  package func didFork() {
    listeners.didFork()
    lock.unlock()
  }

  /// Forgets every breaker but those of some names.
  package func clear(keeping names: [String]) {
    let kept = Set(names.map { NameBytes($0) })
    lock.withLock {
      breakers = breakers.filter { kept.contains($0.key) }
      declared = declared.filter { kept.contains($0.key) }
      changed()
    }
  }

  package func changes(since revision: Int64?) -> StoreChanges {
    lock.withLock {
      let changed = breakers.values.filter { $0.revision > revision ?? .max }
      return StoreChanges(
        continuity: identity, breakers: changed.sorted { $0.revision < $1.revision },
        revision: self.revision, deletedRevision: deletedRevision)
    }
  }

  package func find(_ name: String) -> StoredBreaker? {
    lock.withLock { breakers[NameBytes(name)] }
  }

  package func list(beginningWith prefix: String, in state: BreakerState?) -> [ListedBreaker] {
    lock.withLock {
      breakers
        .filter { $0.key.bytes.starts(with: prefix.utf8) }
        .filter { state.map($0.value.record.state.mayBecome) ?? true }
        .sorted { $0.key.bytes.lexicographicallyPrecedes($1.key.bytes) }
        .map { ListedBreaker(id: $0.value.id, name: $0.value.name) }
    }
  }

  package func read(_ listed: some Collection<ListedBreaker>) -> [StoredBreaker?] {
    lock.withLock { listed.map { breakers[NameBytes($0.name)] } }
  }

  /// Puts a breaker as another storage knew it in the place of one that is not here yet.
  package func seed(_ breaker: StoredBreaker) {
    lock.withLock {
      guard breakers[NameBytes(breaker.name)] == nil else { return }
      var breaker = breaker
      revision += 1
      breaker.revision = revision
      lastID = max(lastID, min(breaker.id, .max / 16))
      breakers[NameBytes(breaker.name)] = breaker
      changed()
    }
  }

  /// This process, which is another one after a fork.
  var author: HistoryAuthor { HistoryAuthor(pid: ProcessTable.ownPid, program: program) }

  package func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) -> Transacted<Answer>? {
    transact(name, orCreate: orCreate, by: author, body)
  }

  /// The same, as somebody does it.
  package func transact<Answer>(
    _ name: String, orCreate: Bool, by author: HistoryAuthor, _ body: (inout BreakerDraft) -> Answer
  ) -> Transacted<Answer>? {
    let transacted = lock.withLock { step(name, orCreate: orCreate, by: author, body) }
    if transacted?.events.isEmpty == false { listeners.wake() }
    return transacted
  }

  /// Under the lock.
  func step<Answer>(
    _ name: String, orCreate: Bool, by author: HistoryAuthor, _ body: (inout BreakerDraft) -> Answer
  ) -> Transacted<Answer>? {
    let found = breakers[NameBytes(name)]
    guard found != nil || orCreate else { return nil }
    let now = clock.moment
    let before = found ?? made(name, at: now)
    var draft = BreakerDraft(now: now, breaker: before, isGone: isGone)
    let answer = body(&draft)
    if let command = draft.command { fleetMemory.give(command, to: name, at: now) }
    for event in draft.events { past.add(event, of: name, by: author) }
    if let words = draft.declaration { declare(words, of: name, at: now, by: author) }
    if draft.breaker != found {
      revision += 1
      draft.breaker.revision = revision
      draft.breaker.usedAtMilliseconds = now.wallMilliseconds
      breakers[NameBytes(name)] = draft.breaker
      changed()
    }
    return Transacted(answer: answer, breaker: draft.breaker, events: draft.events)
  }

  package func transact(together steps: [NamedStep], mustBeNew: Bool) -> TransactedTogether {
    transact(together: steps, mustBeNew: mustBeNew, by: author)
  }

  /// The same, as somebody does it.
  package func transact(
    together steps: [NamedStep], mustBeNew: Bool, by author: HistoryAuthor
  ) -> TransactedTogether {
    let done = lock.withLock {
      var done = TransactedTogether()
      if mustBeNew { done.present = steps.map(\.name).filter { breakers[NameBytes($0)] != nil } }
      guard done.present.isEmpty else { return done }
      done.events = steps.map { one in
        (one.name, step(one.name, orCreate: true, by: author, one.body)?.events ?? [])
      }
      return done
    }
    if !done.events.isEmpty { listeners.wake() }
    return done
  }

  package func delete(_ name: String, ifStill version: StoredVersion?) -> Deletion {
    delete(name, ifStill: version, by: author)
  }

  /// The same, as somebody does it.
  package func delete(_ name: String, ifStill version: StoredVersion?, by author: HistoryAuthor)
    -> Deletion
  {
    let isDeleted = lock.withLock {
      if let version, breakers[NameBytes(name)].map({ StoredVersion(of: $0) }) != version {
        return false
      }
      guard let deleted = breakers.removeValue(forKey: NameBytes(name)) else { return false }
      declared[NameBytes(name)] = nil
      var draft = BreakerDraft(now: clock.moment, breaker: deleted, isGone: isGone)
      draft.note(.deletion(from: draft.breaker.record.state), reason: nil)
      for event in draft.events { past.add(event, of: name, by: author) }
      revision += 1
      deletedRevision = revision
      changed()
      return true
    }
    if isDeleted { listeners.wake() }
    return Deletion(isDeleted: isDeleted)
  }

  package func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) -> [RecordedEvent] {
    lock.withLock { past.events(of: name, sinceMilliseconds: sinceMilliseconds, limit: limit) }
  }

  package func events(after id: Int64, of name: String?, limit: Int) -> EventBatch {
    lock.withLock {
      EventBatch(
        store: identity, newest: past.newest,
        events: past.events(after: id, of: name, limit: limit))
    }
  }

  package func answer(_ request: HookRequest) -> HookTurn {
    lock.withLock {
      var record = hooks[request.hook] ?? HookRecord(for: request, newest: past.newest)
      defer { hooks[request.hook] = record }
      return record.answer(
        request, at: clock.instant, boot: clock.bootID ?? 0, lineage: identity, isGone: isGone
      ) { last in
        past.events(after: last, of: request.name, limit: 1).first
      }
    }
  }

  package func declarations(of name: String) -> [StoredDeclaration] {
    lock.withLock { declared[NameBytes(name)] ?? [] }
  }

  private func made(_ name: String, at now: Moment) -> StoredBreaker {
    lastID += 1
    var breaker = StoredBreaker(
      id: lastID, name: name, createdAtMilliseconds: now.wallMilliseconds)
    breaker.lineage = identity
    breaker.record.tally.since = now.boot
    return breaker
  }

  func changed() { unsafe sb_add(counter, 1) }

  private func declare(_ words: String, of name: String, at now: Moment, by author: HistoryAuthor) {
    var kept = declared[NameBytes(name)] ?? []
    kept.removeAll { $0.words == words }
    kept.append(
      StoredDeclaration(
        words: words, atMilliseconds: now.wallMilliseconds, pid: author.pid,
        program: author.program))
    declared[NameBytes(name)] = Array(kept.suffix(Int(BreakerTable.declarations)))
  }
}
