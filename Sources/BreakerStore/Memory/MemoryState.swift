internal import BreakerCore

/// Everything in a `MemoryStorage` that changes, which guards it.
struct MemoryState {
  /// What tells the breakers of this memory from those of another one.
  let identity = Int64.random(in: .min ... .max)

  private(set) var breakers: [NameBytes: StoredBreaker] = [:]
  private(set) var declared: [NameBytes: [StoredDeclaration]] = [:]
  private(set) var past = MemoryHistory()
  private(set) var revision: Int64 = 0
  private(set) var deletedRevision: Int64 = 0

  /// How often the breakers have changed, beginning with 1.
  private(set) var changes: UInt64 = 1
  var fleet = MemoryFleet()
  private var hooks: [String: HookRecord] = [:]
  private var lastID: Int64 = 0
  private let isGone: @Sendable (ProcessIdentity) -> Bool

  init(isGone: @escaping @Sendable (ProcessIdentity) -> Bool) { self.isGone = isGone }
}

/// Reading.
extension MemoryState {
  func changes(since revision: Int64?) -> StoreChanges {
    let changed = breakers.values.filter { $0.revision > revision ?? .max }
    return StoreChanges(
      continuity: identity, breakers: changed.sorted { $0.revision < $1.revision },
      revision: self.revision, deletedRevision: deletedRevision)
  }

  func list(beginningWith prefix: String, in state: BreakerState?) -> [ListedBreaker] {
    breakers
      .filter { $0.key.bytes.starts(with: prefix.utf8) }
      .filter { state.map($0.value.record.state.mayBecome) ?? true }
      .sorted { $0.key.bytes.lexicographicallyPrecedes($1.key.bytes) }
      .map { ListedBreaker(id: $0.value.id, name: $0.value.name) }
  }
}

/// Changing.
extension MemoryState {
  /// Forgets every breaker but those of some names.
  mutating func clear(keeping kept: Set<NameBytes>) {
    breakers = breakers.filter { kept.contains($0.key) }
    declared = declared.filter { kept.contains($0.key) }
    changes += 1
  }

  /// Puts a breaker as another storage knew it in the place of one that is not here yet.
  mutating func seed(_ breaker: StoredBreaker) {
    guard breakers[NameBytes(breaker.name)] == nil else { return }
    lastID = max(lastID, min(breaker.id, .max / 16))
    keep(breaker)
  }

  /// Takes a step; if it is refused, nothing has changed.
  mutating func step<Answer>(
    _ name: String, orCreate: Bool, at now: Moment, by author: HistoryAuthor,
    _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>? {
    let found = breakers[NameBytes(name)]
    guard found != nil || orCreate else { return nil }
    let before = found ?? made(name, at: now)
    var draft = BreakerDraft(now: now, breaker: before, isGone: isGone)
    let answer = body(&draft)
    if let command = draft.command, !fleet.give(command, to: name, at: now) {
      throw .noFleet(path: "in memory")
    }
    lastID = max(lastID, before.id)
    for event in draft.events { past.add(event, of: name, by: author) }
    if let words = draft.declaration { declare(words, of: name, at: now, by: author) }
    if draft.breaker != found {
      draft.breaker.usedAtMilliseconds = now.wallMilliseconds
      draft.breaker = keep(draft.breaker)
    }
    return Transacted(answer: answer, breaker: draft.breaker, events: draft.events)
  }

  /// Deletes a breaker; false if there was none, or if it is no longer the version asked for.
  mutating func delete(
    _ name: String, ifStill version: StoredVersion?, at now: Moment, by author: HistoryAuthor
  ) -> Bool {
    if let version, breakers[NameBytes(name)].map({ StoredVersion(of: $0) }) != version {
      return false
    }
    guard let deleted = breakers.removeValue(forKey: NameBytes(name)) else { return false }
    declared[NameBytes(name)] = nil
    var draft = BreakerDraft(now: now, breaker: deleted, isGone: isGone)
    draft.note(.deletion(from: draft.breaker.record.state), reason: nil)
    for event in draft.events { past.add(event, of: name, by: author) }
    revision += 1
    deletedRevision = revision
    changes += 1
    return true
  }

  mutating func answer(_ request: HookRequest, at now: Instant, boot: Int64) -> HookTurn {
    var record = hooks[request.hook] ?? HookRecord(for: request, newest: past.newest)
    defer { hooks[request.hook] = record }
    return record.answer(request, at: now, boot: boot, lineage: identity, isGone: isGone) { last in
      past.events(after: last, of: request.name, limit: 1).first
    }
  }

  /// Carries everything over into a boot that has begun by now.
  mutating func carryOver(to now: Moment, bootedAtMilliseconds: Int64) {
    for var breaker in breakers.values {
      breaker.record.moveBeginning(
        to: breaker.record.stateBegan(
          createdAtMilliseconds: breaker.createdAtMilliseconds,
          bootedAtMilliseconds: bootedAtMilliseconds, beforeBoot: true))
      breaker.record = breaker.record.carriedOver(to: now)
      keep(breaker)
    }
    fleet.carryOver(to: now)
    changes += 1
  }

  /// Keeps a breaker that has changed, with the next revision.
  @discardableResult
  private mutating func keep(_ breaker: StoredBreaker) -> StoredBreaker {
    var breaker = breaker
    revision += 1
    breaker.revision = revision
    breakers[NameBytes(breaker.name)] = breaker
    changes += 1
    return breaker
  }

  private func made(_ name: String, at now: Moment) -> StoredBreaker {
    var breaker = StoredBreaker(named: name, madeAt: now, lineage: identity)
    breaker.id = lastID + 1
    return breaker
  }

  private mutating func declare(
    _ words: String, of name: String, at now: Moment, by author: HistoryAuthor
  ) {
    var kept = declared[NameBytes(name)] ?? []
    kept.removeAll { $0.words == words }
    kept.append(
      StoredDeclaration(
        words: words, atMilliseconds: now.wallMilliseconds, pid: author.pid,
        program: author.program))
    declared[NameBytes(name)] = Array(kept.suffix(Int(BreakerTable.declarations)))
  }
}
