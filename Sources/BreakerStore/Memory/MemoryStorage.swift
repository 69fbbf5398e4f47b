package import BreakerCore
internal import CHost

/// Breakers in the memory of one process: for the time that a store cannot be used, and for tests.
@safe package final class MemoryStorage: BreakerStorage {
  let clock: StoreClock
  private let program: String
  private let state: Guarded<MemoryState>
  private let judge: @Sendable (ProcessIdentity) -> Bool

  /// What tells these breakers from those of another memory.
  let identity: Int64

  // The pointer never changes, and what it points to is set atomically.
  private nonisolated(unsafe) let counter: UnsafeMutablePointer<UInt64>
  package let listeners = Listeners(path: nil)

  package init(
    clock: StoreClock, program: String,
    isGone: @escaping @Sendable (ProcessIdentity) -> Bool
  ) {
    self.clock = clock
    self.program = program
    judge = isGone
    let state = MemoryState(isGone: isGone)
    identity = state.identity
    unsafe counter = .allocate(capacity: 1)
    unsafe counter.initialize(to: state.changes)
    self.state = Guarded(state)
  }

  deinit { unsafe counter.deallocate() }

  package var fingerprint: UnsafePointer<UInt64> { unsafe UnsafePointer(counter) }

  /// Reads or changes the state under its lock, and shows whether breakers have changed.
  func withState<Result, Failure: Error>(
    _ body: (inout MemoryState) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try state.withLock { state throws(Failure) in
      defer { unsafe sb_set(counter, state.changes) }
      return try body(&state)
    }
  }

  package func open(mayCreate: Bool) {}
  package func finish() {}
  package func counters(of breaker: StoredBreaker) -> Counters? { nil }
  package func upToDate(_ breaker: StoredBreaker) -> StoredBreaker { breaker }
  package func checkIdentity() {}
  package func proveWritable() {}
  package func close() {}
  package func lifeline() -> Lifeline? { nil }
  package func isGone(_ owner: ProcessIdentity) -> Bool { judge(owner) }

  package func willFork() {
    state.willFork()
    listeners.willFork()
  }

  package func didFork() {
    listeners.didFork()
    state.didFork()
  }

  /// Forgets every breaker but those of some names.
  package func clear(keeping names: [String]) {
    let kept = Set(names.map { NameBytes($0) })
    withState { $0.clear(keeping: kept) }
  }

  package func changes(since revision: Int64?) -> StoreChanges {
    withState { $0.changes(since: revision) }
  }

  package func find(_ name: String) -> StoredBreaker? {
    withState { $0.breakers[NameBytes(name)] }
  }

  package func list(beginningWith prefix: String, in state: BreakerState?) -> [ListedBreaker] {
    withState { $0.list(beginningWith: prefix, in: state) }
  }

  package func read(_ listed: some Collection<ListedBreaker>) -> [StoredBreaker?] {
    withState { state in listed.map { state.breakers[NameBytes($0.name)] } }
  }

  /// Puts a breaker as another storage knew it in the place of one that is not here yet.
  package func seed(_ breaker: StoredBreaker) { withState { $0.seed(breaker) } }

  /// This process, which is another one after a fork.
  var author: HistoryAuthor { HistoryAuthor(pid: ProcessTable.ownPid, program: program) }

  package func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    try transact(name, orCreate: orCreate, by: author, body)
  }

  /// The same, as somebody does it.
  package func transact<Answer>(
    _ name: String, orCreate: Bool, by author: HistoryAuthor, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    let transacted = try withState { state throws(StoreError) in
      try state.step(name, orCreate: orCreate, at: clock.moment, by: author, body)
    }
    if transacted?.events.isEmpty == false { listeners.wake() }
    return transacted
  }

  package func transact(
    together steps: [NamedStep], mustBeNew: Bool
  ) throws(StoreError) -> TransactedTogether {
    try transact(together: steps, mustBeNew: mustBeNew, by: author)
  }

  /// The same, as somebody does it.
  package func transact(
    together steps: [NamedStep], mustBeNew: Bool, by author: HistoryAuthor
  ) throws(StoreError) -> TransactedTogether {
    let done = try withState { state throws(StoreError) in
      var done = TransactedTogether()
      if mustBeNew {
        done.present = steps.map(\.name).filter { state.breakers[NameBytes($0)] != nil }
      }
      guard done.present.isEmpty else { return done }
      var next = state
      for one in steps {
        let step = try next.step(one.name, orCreate: true, at: clock.moment, by: author, one.body)
        done.events.append((one.name, step?.events ?? []))
      }
      state = next
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
    let isDeleted = withState {
      $0.delete(name, ifStill: version, at: clock.moment, by: author)
    }
    if isDeleted { listeners.wake() }
    return Deletion(isDeleted: isDeleted)
  }

  package func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) -> [RecordedEvent] {
    withState {
      $0.past.events(of: name, sinceMilliseconds: sinceMilliseconds, limit: limit)
    }
  }

  package func events(after id: Int64, of name: String?, limit: Int) -> EventBatch {
    withState {
      EventBatch(
        store: identity, newest: $0.past.newest,
        events: $0.past.events(after: id, of: name, limit: limit))
    }
  }

  package func answer(_ request: HookRequest) -> HookTurn {
    withState { $0.answer(request, at: clock.instant, boot: clock.bootID ?? 0) }
  }

  package func declarations(of name: String) -> [StoredDeclaration] {
    withState { $0.declared[NameBytes(name)] ?? [] }
  }
}
