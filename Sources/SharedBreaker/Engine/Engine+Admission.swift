internal import BreakerCore
internal import BreakerStore

/// Whether a call may be made.
extension Engine {
  /// What a caller asks for.
  struct Request {
    /// The process whose end frees the slot of a probe.
    var owner: ProcessIdentity?

    /// Whether the owner is this process, which reports the call by itself.
    ///
    /// Its lifeline then goes with the lease. Whoever reports by a token may be another program that
    /// the owner has become by execve(2), which ends the lifeline and not the process.
    var holdsLifeline = false

    /// How long a probe may take, if longer than the policy says.
    var probeTimeout: Duration?

    /// What the call does while the store cannot be used.
    var onFailure: StoreFailureAction

    /// Whether the permit has to name the row of its breaker.
    var isNamed = false

    func make(
      on draft: inout BreakerDraft, lifeline: () -> Lifeline? = { nil }
    ) -> Decision<PermitGrant> {
      let policy = draft.breaker.policy
      return draft.apply { record, now in
        record.requested(
          // Rule of order 23: it is held before the lease is written.
          at: now, by: holdsLifeline ? owner?.holding(lifeline()) : owner,
          probeTimeout: probeTimeout, policy: policy)
      }
    }
  }

  func admit(_ request: Request, to cell: Cell) throws(BreakerError) -> Decision<Ticket> {
    try decide(request, on: cell).spread(by: cell)
  }

  private func decide(
    _ request: Request, on cell: Cell
  ) throws(BreakerError) -> Decision<Ticket> {
    try waiting { () throws(BreakerError) in
      doRounds()
      if let trouble = trouble(of: cell) {
        return try admitWithoutStore(request, to: cell, trouble)
      }
      do throws(StoreError) {
        return try admitThroughStore(request, to: cell)
      } catch {
        if error.isInterrupted { throw .store(error) }
        failed(error, of: cell)
        return try admitWithoutStore(request, to: cell, error)
      }
    }
  }

  private func admitThroughStore(
    _ request: Request, to cell: Cell
  ) throws(StoreError) -> Decision<Ticket> {
    if !isCurrent { try refresh() }
    // What another process has written leaves a healthy breaker as it was.
    let word = cell.word
    if word.has(CellWord.permits), !request.isNamed { return .permitted(Ticket(word)) }
    if let decision = assess(try known(cell), of: cell) { return decision }
    let (decision, breaker) = try step(cell) {
      request.make(on: &$0, lifeline: storage.lifeline)
    }
    return decision.map { Ticket($0, of: breaker, from: .store) }
  }

  /// The answer that changes nothing in the store; nil if the call would change it.
  func assess(_ known: Known, of cell: Cell) -> Decision<Ticket>? {
    // Its first call creates the breaker, so that other processes can find it.
    guard known.exists else { return nil }
    // A closure, because a reference to the method of an unknown class would be allocated.
    let assessment = known.breaker.record.assessed(
      at: clock.instant, policy: known.policy, isGone: { storage.isGone($0) })
    switch assessment {
    case .permitted(let grant):
      if grant.wouldReject { cell.count(.oneWouldReject) }
      return .permitted(Ticket(grant, of: known.breaker, from: .store))
    case .rejected(let rejection):
      cell.countRejection()
      return .rejected(rejection)
    case .undecided:
      return nil
    }
  }

  func admitWithoutStore(
    _ request: Request, to cell: Cell, _ trouble: StoreError
  ) throws(BreakerError) -> Decision<Ticket> {
    // A process that has ended makes no calls, whatever it was to do without its store.
    if let ending = options.processes.ending() { throw .store(ending) }
    switch request.onFailure {
    case .permit:
      let grant = PermitGrant(kind: .normal, generation: PermitGrant.unjudged)
      return .permitted(Ticket(grant, from: .none))
    case .reject:
      return .rejected(rejectWithoutStore(cell))
    case .throw:
      throw .store(trouble)
    case .continueLocally:
      let done = stepAlone(cell, orCreate: true) { request.make(on: &$0) }
      guard let (decision, breaker) = done else { throw .store(trouble) }
      return decision.map { Ticket($0, of: breaker, from: .local) }
    }
  }

  private func rejectWithoutStore(_ cell: Cell) -> Rejection {
    let nextTry = update { state in
      state.keep(.oneRejection, of: cell)
      return state.availability.nextTry(of: cell)
    }
    let known = lastKnown(cell).record(at: clock.moment, isGone: storage.isGone)
    return Rejection(
      state: known.state, mode: known.mode.mode,
      retryAfter: .nanoseconds(max(0, nextTry - clock.coarseNanoseconds)))
  }
}

extension Decision {
  /// The same answer with what is made of the grant.
  func map<Other>(_ make: (Grant) -> Other) -> Decision<Other> {
    switch self {
    case .permitted(let grant): .permitted(make(grant))
    case .rejected(let rejection): .rejected(rejection)
    }
  }
}

extension Decision {
  /// The same answer as one of many callers is given it, who are not to come back together.
  func spread(by cell: Cell) -> Decision {
    switch self {
    case .permitted: self
    case .rejected(let rejection): .rejected(cell.spread(rejection))
    }
  }
}

extension Counted {
  fileprivate static var oneRejection: Counted { one(\.rejections) }
  fileprivate static var oneWouldReject: Counted { one(\.wouldReject) }

  private static func one(_ count: WritableKeyPath<Counted, Int64>) -> Counted {
    var counted = Counted()
    counted[keyPath: count] = 1
    return counted
  }
}
