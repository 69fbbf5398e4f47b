internal import BreakerCore
internal import BreakerStore

/// Deciding whether a call may be made.
extension Engine {
  /// A caller's request.
  struct Request {
    /// The process whose end frees the slot of a probe.
    var owner = Owner.caller

    enum Owner {
      /// This process, which reports the call itself.
      ///
      /// Only a lease names it, so a process that makes healthy calls never looks itself up.
      case caller

      /// A process that reports the call by a token, if it is known.
      ///
      /// Its lease names no lifeline: another program may report that the owner has become by
      /// execve(2), which ends the lifeline but not the process.
      case token(ProcessIdentity?)
    }

    /// How long a probe may take, if longer than the policy says.
    var probeTimeout: Duration?

    /// The action of the call while the store cannot be used.
    var onFailure: StoreFailureAction

    /// How much the call takes of a limit, and its priority.
    var claim = CallClaim()

    /// How long the call has waited for room before, in nanoseconds.
    var waited: Int64 = 0

    /// Calls that surround this one besides those of its task.
    var outers = OuterCalls()

    /// Runs a body in which the thread sleeps until its turn; nil if that takes nothing else.
    var asleep: (@Sendable (() -> Void) -> Void)?

    /// Whether the permit has to name the row of its breaker.
    var isNamed = false
  }

  /// The owner of a request as a lease in the store names it.
  private func leaseOwner(of request: Request) -> ProcessIdentity? {
    switch request.owner {
    // Rule of order 25: the lifeline is held before the lease is written.
    case .caller: claimant()
    case .token(let process): process
    }
  }

  /// The owner of a request as a lease of this process alone names it.
  private func localOwner(of request: Request) -> ProcessIdentity? {
    switch request.owner {
    case .caller: ownProcess()
    case .token(let process): process
    }
  }

  /// Decides whether a call may be made, and waits for the store and for its turn if it has to.
  ///
  /// - Throws: `BreakerError.store` if a wait was ended early, or if the store cannot be used and the
  ///   request says to throw.
  func admit(_ request: Request, to cell: Cell) throws(BreakerError) -> Decision<Ticket> {
    switch try begin(request, on: cell) {
    case .decided(let decision): return decision
    case .looksForRoom(let ticket, let limit):
      return try findRoom(for: ticket, under: limit, request, of: cell)
    }
  }

  /// Decides whether a call may be made, without waiting for a file, another process, or its turn.
  ///
  /// - Returns: The decision; nil, and nothing has changed, if it takes a wait.
  /// - Throws: `BreakerError.store` if the store cannot be used and the request says to throw.
  func admitAtOnce(
    _ request: Request, to cell: Cell
  ) throws(BreakerError) -> Decision<Ticket>? {
    switch try beginAtOnce(request, on: cell) {
    case .decided(let decision)?: return decision
    case .looksForRoom(let ticket?, let limit)?:
      return try findRoomAtOnce(for: ticket, under: limit, request, of: cell)
    case .looksForRoom(nil, _)?, nil: return nil
    }
  }

  /// Decides whether a call may be made, and suspends the task while it waits for its turn.
  ///
  /// - Throws: `CancellationError` too, if the task is cancelled while it waits.
  nonisolated(nonsending) func admitInTurn(
    _ request: Request, to cell: Cell
  ) async throws -> Decision<Ticket> {
    switch try begin(request, on: cell) {
    case .decided(let decision): return decision
    case .looksForRoom(let ticket, let limit):
      return try await findRoomInTurn(for: ticket, under: limit, request, of: cell)
    }
  }

  /// The first answer to a call, before it looks for room.
  enum Beginning {
    case decided(Decision<Ticket>)

    /// It is permitted if there is room for it, or has no ticket yet because it waits for the end of a hold.
    case looksForRoom(Ticket?, under: LimitInForce)
  }

  /// Decides on a call, or finds that it has to look for room; nil only if the call must not wait.
  func begin(
    _ request: Request, on cell: Cell, mayWait: Bool
  ) throws(BreakerError) -> Beginning? {
    try mayWait ? begin(request, on: cell) : beginAtOnce(request, on: cell)
  }

  /// Decides on a call, once calls that others have lost are recorded; all of its waits for the store share one bound.
  private func begin(_ request: Request, on cell: Cell) throws(BreakerError) -> Beginning {
    try waiting { () throws(BreakerError) -> Beginning in
      if let limit = try limitOfQueue(while: request, isHeldBy: cell, mayWait: true) {
        return .looksForRoom(nil, under: limit)
      }
      let decision = try decide(request, on: cell)
      // The hold may have begun between the two looks.
      if case .rejected(let rejection) = decision, rejection.cause == .held,
        let limit = try limitOfQueue(while: request, isHeldBy: cell, mayWait: false)
      {
        return .looksForRoom(nil, under: limit)
      }
      let beginning = beginning(of: decision, request, on: cell)
      guard case .looksForRoom(let ticket?, let limit) = beginning,
        settleWhatOthersLeft(before: ticket, under: limit, of: cell)
      else { return beginning }
      return self.beginning(of: try decide(request, on: cell), request, on: cell)
    }
  }

  /// Does the same without waiting; nil, and nothing has changed, if it takes a wait.
  private func beginAtOnce(
    _ request: Request, on cell: Cell
  ) throws(BreakerError) -> Beginning? {
    if let limit = try limitOfQueue(while: request, isHeldBy: cell, mayWait: false) {
      return .looksForRoom(nil, under: limit)
    }
    guard let decision = try decideAtOnce(request, on: cell) else { return nil }
    let beginning = beginning(of: decision, request, on: cell)
    if case .looksForRoom(let ticket?, let limit) = beginning,
      hasToSettleWhatOthersLeft(before: ticket, under: limit, of: cell)
    {
      return nil
    }
    return beginning
  }

  private func beginning(
    of decision: Decision<Ticket>, _ request: Request, on cell: Cell
  ) -> Beginning {
    guard case .permitted(let ticket) = decision, let limit = limit(over: ticket, of: cell),
      // The outcome of a token may come from any process, so none of them could give back its room.
      !request.isNamed || limit.limit.isRated
    else { return .decided(decision) }
    return .looksForRoom(ticket, under: limit)
  }

  /// Decides whether a call may be made if there is room for it.
  func decide(_ request: Request, on cell: Cell) throws(BreakerError) -> Decision<Ticket> {
    if !request.isNamed, let word = wordWithinLimit(of: cell) { return .permitted(Ticket(word)) }
    return try waiting { () throws(BreakerError) -> Decision<Ticket> in
      doRounds()
      if let trouble = trouble(of: cell) {
        return try admitWithoutStore(request, to: cell, trouble)
      }
      do throws(StoreError) {
        if let decision = try decideWithoutWriting(request, on: cell, mayWait: true) {
          return decision
        }
        return try decideInStore(request, on: cell)
      } catch {
        return try admit(request, to: cell, after: error)
      }
    }.spread(by: cell)
  }

  /// The word by which a breaker permits calls for which there is room; nil if it takes more than memory to
  /// decide on a call, or if the breaker has no limit.
  @inline(__always) func wordWithinLimit(of cell: Cell) -> CellWord? {
    guard !isRoundDue(inSecond: second), isCurrent else { return nil }
    let word = cell.word
    return word.has(CellWord.permitsWithinLimit) ? word : nil
  }

  /// Decides in one way or the other; nil only if the call must not wait.
  func decide(
    _ request: Request, on cell: Cell, mayWait: Bool
  ) throws(BreakerError) -> Decision<Ticket>? {
    try mayWait ? decide(request, on: cell) : decideAtOnce(request, on: cell)
  }

  /// Does the same without waiting; nil, and nothing has changed, if the decision takes reading or writing
  /// the store.
  private func decideAtOnce(
    _ request: Request, on cell: Cell
  ) throws(BreakerError) -> Decision<Ticket>? {
    try waiting { () throws(BreakerError) -> Decision<Ticket>? in
      if isRoundDue(inSecond: second) { return nil }
      switch turn(of: cell, mayWait: false) {
      case .tryAgain: return nil
      case .goWithout(let trouble): return try admitWithoutStore(request, to: cell, trouble)
      case .use: break
      }
      do throws(StoreError) {
        return try decideWithoutWriting(request, on: cell, mayWait: false)
      } catch {
        return try admit(request, to: cell, after: error)
      }
    }?.spread(by: cell)
  }

  /// Decides on a call after the store has failed.
  private func admit(
    _ request: Request, to cell: Cell, after error: StoreError
  ) throws(BreakerError) -> Decision<Ticket> {
    if error.isInterrupted { throw .store(error) }
    failed(error, of: cell)
    return try admitWithoutStore(request, to: cell, error)
  }

  /// The decision if it changes nothing in the store; nil if it does, or takes reading the store and
  /// the caller must not wait.
  private func decideWithoutWriting(
    _ request: Request, on cell: Cell, mayWait: Bool
  ) throws(StoreError) -> Decision<Ticket>? {
    guard try isCurrent(mayWait: mayWait) else { return nil }
    // Other processes have written to the store, but this breaker is still healthy.
    let word = cell.word
    if word.has(CellWord.permits | CellWord.permitsWithinLimit), !request.isNamed {
      return .permitted(Ticket(word))
    }
    return try known(cell, mayWait: mayWait).flatMap { assess($0, of: cell, request) }
  }

  private func assess(_ known: Known, of cell: Cell, _ request: Request) -> Decision<Ticket>? {
    // The first call of a breaker creates it, so that other processes can find it.
    guard known.exists else { return nil }
    switch assess(known) {
    case .permitted(let grant):
      if grant.wouldReject { cell.count(.oneWouldReject) }
      return .permitted(Ticket(grant, of: known.breaker, from: .store))
    case .rejected(let rejection):
      if let ticket = ticketInsideOfFirst(rejection, known, of: cell, request) {
        return .permitted(ticket)
      }
      cell.countRejection(isHeld: rejection.cause == .held)
      return .rejected(rejection)
    case .undecided:
      return nil
    }
  }

  /// The ticket of a call inside of the one that goes first after a hold, with which it goes; nil if it is no such call.
  private func ticketInsideOfFirst(
    _ rejection: Rejection, _ known: Known, of cell: Cell, _ request: Request
  ) -> Ticket? {
    guard rejection.cause == .held, known.holdLeft(at: clock.instant) == 0,
      let slots = known.limit?.slots
    else { return nil }
    if case .nothing = CallNesting.surroundings(on: slots, besides: request.outers) { return nil }
    let grant = PermitGrant(kind: .normal, generation: known.breaker.record.generation)
    return Ticket(grant, of: known.breaker, from: .store)
  }

  /// The answer of the core to a call now.
  func assess(_ known: Known) -> Assessment {
    // A closure, because a reference to the method of an unknown class would be allocated.
    known.breaker.record.assessed(
      at: clock.instant, policy: known.policy, isGone: { storage.isGone($0) })
  }

  private func decideInStore(
    _ request: Request, on cell: Cell
  ) throws(StoreError) -> Decision<Ticket> {
    let (decision, breaker) = try step(cell) {
      $0.request(by: leaseOwner(of: request), probeTimeout: request.probeTimeout)
    }
    return decision.map { Ticket($0, of: breaker, from: .store) }
  }

  /// Acts as the caller wants while the store cannot be used.
  private func admitWithoutStore(
    _ request: Request, to cell: Cell, _ trouble: StoreError
  ) throws(BreakerError) -> Decision<Ticket> {
    // A process that has ended makes no calls, whatever its `StoreFailureAction` is.
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
      let done = stepAlone(cell, orCreate: true) {
        $0.request(by: localOwner(of: request), probeTimeout: request.probeTimeout)
      }
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
      retryAfter: .nanoseconds(max(0, nextTry - clock.coarseNanoseconds)),
      reason: known.mode.mode == .forcedOpen ? known.mode.reason : "the store cannot be used")
  }
}

extension Decision {
  /// This decision with another value instead of the grant.
  func map<Other>(_ transform: (Grant) -> Other) -> Decision<Other> {
    switch self {
    case .permitted(let grant): .permitted(transform(grant))
    case .rejected(let rejection): .rejected(rejection)
    }
  }

  /// This decision, with waits spread so that rejected callers do not all come back together.
  fileprivate func spread(by cell: Cell) -> Decision {
    switch self {
    case .permitted: self
    case .rejected(let rejection): .rejected(cell.spread(rejection))
    }
  }
}

extension Counted {
  static var oneRejection: Counted { one(\.rejections) }
  static var oneWouldReject: Counted { one(\.wouldReject) }
  static var oneBusy: Counted { one(\.busy) }
  static var oneRamping: Counted { one(\.ramping) }
  static var oneOverRate: Counted { one(\.overRate) }
  static var oneRetry: Counted { one(\.retries) }
  static var oneOverBudget: Counted { one(\.overBudget) }

  private static func one(_ count: WritableKeyPath<Counted, Int64>) -> Counted {
    var counted = Counted()
    counted[keyPath: count] = 1
    return counted
  }
}
