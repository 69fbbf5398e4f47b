internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// What has to be known again when the outcome of a call comes back.
struct Ticket: Sendable {
  var grant: PermitGrant

  /// The row of the breaker, and the lineage of its store; 0 if they are not known.
  var breaker: Int64
  var lineage: Int64

  /// The word of a call that was let through from memory, which knows the row by a few bits.
  var word = CellWord.unknown
  var source: Source

  /// The fork generation of the process that was given it: a child does not own it.
  var process: UInt64

  enum Source: Sendable {
    case store

    /// The breaker of this process alone.
    case local

    /// No breaker at all: the outcome has nowhere to go.
    case none
  }
}

extension Ticket {
  /// The permit that a word stands for.
  init(_ word: CellWord) {
    let grant = PermitGrant(kind: .normal, generation: word.generation)
    self.init(
      grant: grant, breaker: 0, lineage: 0, word: word, source: .store,
      process: ForkGuard.generation)
  }

  /// Whether it is of this process, and not of one that it was forked from.
  var isOwn: Bool {
    process == ForkGuard.generation && (word == .unknown || word.isOwn)
  }

  /// The grant, unless another breaker gave it: one of another store, or one that was deleted since
  /// and made again under the same name.
  func grant(on breaker: StoredBreaker) -> PermitGrant {
    let isOther =
      self.breaker != 0 && (self.breaker != breaker.id || lineage != breaker.lineage)
    guard isOther || !word.mayBe(of: breaker) else { return grant }
    var grant = grant
    grant.generation = PermitGrant.unjudged
    grant.lease = 0
    return grant
  }
}

/// The answer to a call.
enum Admission: Sendable {
  case permitted(Ticket)
  case rejected(Rejection)
}

extension Engine {
  /// Asks to let a call through; the end of the owner, if any, frees the slot of a probe.
  ///
  /// `isNamed` asks for a permit that names the row of its breaker, and `probeTimeout` for more time
  /// than the policy gives a probe.
  func admit(
    _ cell: Cell, owner: ProcessIdentity?, onFailure: StoreFailureAction, isNamed: Bool = false,
    probeTimeout: Duration? = nil
  ) throws(BreakerError) -> Admission {
    doRounds()
    if let trouble = trouble(of: cell) {
      return try admitWithoutStore(cell, owner, probeTimeout, onFailure: onFailure, trouble)
    }
    do throws(StoreError) {
      return try admitThroughStore(cell, owner, probeTimeout, isNamed: isNamed)
    } catch {
      failed(error, of: cell)
      return try admitWithoutStore(cell, owner, probeTimeout, onFailure: onFailure, error)
    }
  }

  private func admitThroughStore(
    _ cell: Cell, _ owner: ProcessIdentity?, _ probeTimeout: Duration?, isNamed: Bool
  ) throws(StoreError) -> Admission {
    if !isCurrent { try refresh() }
    // What a neighbour has written leaves a healthy breaker as it was.
    let word = cell.word
    if word.has(CellWord.permits), !isNamed { return .permitted(Ticket(word)) }
    let known = try known(cell)
    // A breaker that is in use can be found by others, so its first call makes it.
    guard known.exists else {
      return try admitInTransaction(cell, owner: owner, probeTimeout: probeTimeout)
    }
    let assessment = known.breaker.record.assessed(
      at: clock.instant, policy: known.policy, isGone: options.processes.isGone)
    switch assessment {
    case .permitted(let grant):
      if grant.wouldReject { cell.countOne(\.wouldReject) }
      return .permitted(ticket(grant, known.breaker, .store))
    case .rejected(let rejection):
      cell.countRejection()
      return .rejected(rejection)
    case .undecided:
      return try admitInTransaction(cell, owner: owner, probeTimeout: probeTimeout)
    }
  }

  private func admitInTransaction(
    _ cell: Cell, owner: ProcessIdentity?, probeTimeout: Duration?
  ) throws(StoreError) -> Admission {
    let (verdict, breaker) = try step(cell) { draft, policy in
      draft.apply { record, now in
        record.requested(at: now, by: owner, probeTimeout: probeTimeout, policy: policy)
      }
    }
    return admission(verdict, breaker, .store)
  }

  private func admitWithoutStore(
    _ cell: Cell, _ owner: ProcessIdentity?, _ probeTimeout: Duration?,
    onFailure: StoreFailureAction, _ trouble: StoreError
  ) throws(BreakerError) -> Admission {
    // A process that has ended makes no calls, whatever it was to do without its store.
    if let ending = options.processes.ending() { throw .store(ending) }
    switch onFailure {
    case .permit:
      let grant = PermitGrant(kind: .normal, generation: PermitGrant.unjudged)
      return .permitted(ticket(grant, nil, .none))
    case .reject:
      cellsLock.withLock {
        cell.keepRejection()
        noteToWrite(cell)
      }
      let known = lastKnown(cell).record(at: clock.moment, isGone: options.processes.isGone)
      return .rejected(
        Rejection(
          state: known.state, mode: known.mode.mode,
          retryAfter: .nanoseconds(
            max(0, nextAttempt.load(ordering: .relaxed) - clock.coarseNanoseconds))))
    case .throw:
      throw .store(trouble)
    case .continueLocally:
      local.seed(lastKnown(cell).breaker)
      let transacted = local.transact(cell.name, orCreate: true, wait: .usual) { draft in
        let policy = draft.breaker.policy
        return draft.apply { record, now in
          record.requested(at: now, by: owner, probeTimeout: probeTimeout, policy: policy)
        }
      }
      guard let transacted else { throw .store(trouble) }
      return admission(transacted.answer, transacted.breaker, .local)
    }
  }

  private func admission(
    _ verdict: Verdict, _ breaker: StoredBreaker, _ source: Ticket.Source
  ) -> Admission {
    switch verdict {
    case .permitted(let grant): .permitted(ticket(grant, breaker, source))
    case .rejected(let rejection): .rejected(rejection)
    }
  }

  private func ticket(
    _ grant: PermitGrant, _ breaker: StoredBreaker?, _ source: Ticket.Source
  ) -> Ticket {
    Ticket(
      grant: grant, breaker: breaker?.id ?? 0, lineage: breaker?.lineage ?? 0, source: source,
      process: ForkGuard.generation)
  }
}

/// A core step in a transaction.
extension Engine {
  /// Runs a step on a breaker, which is made if there is none.
  func step<Answer>(
    _ cell: Cell, wait: Wait = .usual,
    _ body: (inout BreakerDraft, BreakerPolicy) -> Answer
  ) throws(StoreError) -> (answer: Answer, breaker: StoredBreaker) {
    guard let done = try step(cell, orCreate: true, wait: wait, body) else {
      preconditionFailure("a breaker that may be made was not made")
    }
    return done
  }

  /// Runs a step on a breaker; nil if there is none and none may be made.
  func step<Answer>(
    _ cell: Cell, orCreate: Bool, wait: Wait = .usual,
    _ body: (inout BreakerDraft, BreakerPolicy) -> Answer
  ) throws(StoreError) -> (answer: Answer, breaker: StoredBreaker)? {
    let (declared, isUndeclared, pending, era) = cellsLock.withLock {
      unsafe (cell.declared, cell.isUndeclared, cell.takePending(), self.era)
    }
    do throws(StoreError) {
      let transacted = try storage.transact(cell.name, orCreate: orCreate, wait: wait) { draft in
        draft.begin(declared: declared, isUndeclared: isUndeclared, pending: pending)
        return body(&draft, draft.breaker.policy)
      }
      guard let transacted else {
        cellsLock.withLock {
          cell.keep(pending)
          noteToWrite(cell)
        }
        return nil
      }
      if isUndeclared { hasDeclared(declared, for: cell, at: transacted.breaker.revision) }
      settle(transacted, of: cell, in: era)
      return (transacted.answer, transacted.breaker)
    } catch {
      cellsLock.withLock {
        cell.keep(pending)
        noteToWrite(cell)
      }
      throw error
    }
  }

  /// Takes over what a transaction has written, and tells of it.
  func settle<Answer>(_ transacted: Transacted<Answer>, of cell: Cell, in era: Int64) {
    learn(transacted.breaker, of: cell, in: era, keeping: true)
    // Every cell, before the fingerprint that vouches for all of them.
    for other in transacted.others {
      let its = cellsLock.withLock { unsafe cells[other.name] }
      if let its { learn(other, of: its, in: era, keeping: true) }
    }
    if let fingerprints = transacted.fingerprints {
      goOn(
        from: fingerprints.before, to: fingerprints.after, at: transacted.breaker.revision,
        in: era)
    }
    hasConnected()
    if let error = transacted.syncError { tell(.notDurable(error)) }
    for event in transacted.events where event.kind == .transition {
      guard let from = BreakerState(wireName: event.from), let to = BreakerState(wireName: event.to)
      else { continue }
      tell(.transition(name: cell.name, from: from, to: to, reason: event.reason ?? ""))
    }
  }
}

extension BreakerDraft {
  /// Puts in what this process has to add to whatever it does.
  mutating func begin(declared: String?, isUndeclared: Bool, pending: Counted) {
    let before = breaker.codeWords
    if let declared, before != declared, before == nil || isUndeclared {
      breaker.codeWords = declared
      declaration = declared
      if let before {
        note(.policy, from: before, to: declared, reason: "declared by code")
      }
    }
    breaker.record.totals += pending.totals
  }
}
