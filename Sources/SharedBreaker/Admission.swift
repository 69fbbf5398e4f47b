internal import BreakerCore
internal import BreakerStore
internal import Synchronization

/// What has to be known again when the outcome of a call comes back.
struct Ticket: Sendable {
  var grant: PermitGrant

  /// The row of the breaker; 0 if it had none.
  var breaker: Int64
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

/// The answer to a call.
enum Admission: Sendable {
  case permitted(Ticket)
  case rejected(Rejection)
}

extension Engine {
  /// Asks to let a call through; the end of the owner, if any, frees the slot of a probe.
  func admit(
    _ cell: Cell, owner: ProcessIdentity?, onFailure: StoreFailureAction
  ) throws(BreakerError) -> Admission {
    doRounds()
    if let trouble = trouble() {
      return try admitWithoutStore(cell, owner: owner, onFailure: onFailure, trouble)
    }
    do throws(StoreError) {
      return try admitThroughStore(cell, owner: owner)
    } catch {
      failed(error)
      return try admitWithoutStore(cell, owner: owner, onFailure: onFailure, error)
    }
  }

  private func admitThroughStore(
    _ cell: Cell, owner: ProcessIdentity?
  ) throws(StoreError) -> Admission {
    let known = try known(cell)
    let assessment = known.breaker.record.assessed(
      at: clock.instant, policy: known.policy, isGone: ProcessTable.isGone)
    switch assessment {
    case .permitted(let grant):
      if grant.wouldReject { count(\.wouldReject, of: cell) }
      return .permitted(ticket(grant, known.breaker.id, .store))
    case .rejected(let rejection):
      count(\.rejections, of: cell)
      return .rejected(rejection)
    case .undecided:
      let (verdict, breaker) = try step(cell) { draft, policy in
        draft.apply { record, now in
          record.requested(
            at: now, by: owner, policy: policy, jitter: Jitter.drawn(),
            isGone: ProcessTable.isGone)
        }
      }
      return admission(verdict, breaker.id, .store)
    }
  }

  private func admitWithoutStore(
    _ cell: Cell, owner: ProcessIdentity?, onFailure: StoreFailureAction, _ trouble: StoreError
  ) throws(BreakerError) -> Admission {
    switch onFailure {
    case .permit:
      let grant = PermitGrant(kind: .normal, generation: PermitGrant.unjudged)
      return .permitted(ticket(grant, 0, .none))
    case .reject:
      count(\.rejections, of: cell)
      let known = lastKnown(cell).breaker.record
      return .rejected(
        Rejection(
          state: known.state, mode: known.mode(at: clock.instant),
          retryAfter: .nanoseconds(
            max(0, nextAttempt.load(ordering: .relaxed) - clock.coarseNanoseconds))))
    case .throw:
      throw .store(trouble)
    case .continueLocally:
      local.seed(lastKnown(cell).breaker)
      let transacted = local.transact(cell.name, orCreate: true, wait: .usual) { draft in
        let policy = draft.breaker.policy
        return draft.apply { record, now in
          record.requested(
            at: now, by: owner, policy: policy, jitter: Jitter.drawn(),
            isGone: ProcessTable.isGone)
        }
      }
      guard let transacted else { throw .store(trouble) }
      return admission(transacted.answer, transacted.breaker.id, .local)
    }
  }

  private func admission(
    _ verdict: Verdict, _ breaker: Int64, _ source: Ticket.Source
  ) -> Admission {
    switch verdict {
    case .permitted(let grant): .permitted(ticket(grant, breaker, source))
    case .rejected(let rejection): .rejected(rejection)
    }
  }

  private func ticket(
    _ grant: PermitGrant, _ breaker: Int64, _ source: Ticket.Source
  ) -> Ticket {
    Ticket(grant: grant, breaker: breaker, source: source, process: ForkGuard.generation)
  }

  func count(_ total: WritableKeyPath<Totals, Int64>, of cell: Cell) {
    var totals = Totals()
    totals[keyPath: total] = 1
    cell.count(totals)
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
    let known = lastKnown(cell)
    let (declared, isUndeclared) = cellsLock.withLock {
      unsafe (cell.declared, cell.isUndeclared)
    }
    let pending = cell.takePending()
    do throws(StoreError) {
      let transacted = try storage.transact(cell.name, orCreate: orCreate, wait: wait) { draft in
        draft.begin(declared: declared, isUndeclared: isUndeclared, pending: pending)
        let isKnownPolicy =
          known.breaker.codeWords == draft.breaker.codeWords
          && known.breaker.operatorWords == draft.breaker.operatorWords
        return body(&draft, isKnownPolicy ? known.policy : draft.breaker.policy)
      }
      guard let transacted else {
        cell.count(pending)
        return nil
      }
      if isUndeclared { hasDeclared(declared, for: cell) }
      settle(transacted, of: cell)
      return (transacted.answer, transacted.breaker)
    } catch {
      cell.count(pending)
      throw error
    }
  }

  /// Takes over what a transaction has written, and tells of it.
  func settle<Answer>(_ transacted: Transacted<Answer>, of cell: Cell) {
    learn(transacted.breaker, of: cell)
    // Every cell, before the fingerprint that vouches for all of them.
    for other in transacted.others {
      let its = cellsLock.withLock { unsafe cells[Array(other.name.utf8)] }
      if let its { learn(other, of: its) }
    }
    if let fingerprints = transacted.fingerprints {
      goOn(from: fingerprints.before, to: fingerprints.after, at: transacted.breaker.revision)
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
  mutating func begin(declared: String?, isUndeclared: Bool, pending: Totals) {
    let before = breaker.codeWords
    if let declared, before != declared, before == nil || isUndeclared {
      breaker.codeWords = declared
      declaration = declared
      if let before {
        events.append(
          BreakerEvent(.policy, from: before, to: declared, reason: "declared by code"))
      }
    }
    breaker.record.totals += pending
  }
}
