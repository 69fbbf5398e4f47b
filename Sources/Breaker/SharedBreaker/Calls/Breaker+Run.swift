internal import BreakerCore
internal import BreakerStore

/// Running work behind a breaker.
///
/// There is one `run` for code outside of tasks, and there are two for tasks. Swift prefers the one whose work is
/// synchronous where the work is, so that no task sleeps on a thread that the calls ahead of it may need to end.
///
/// Each has a twin for work that returns nothing. With it, `{ try breaker.run { usleep(1) } }` may stand where nothing
/// is to be returned: otherwise Swift could not tell whether the work or the closure around it ignores the result.
extension Breaker {
  /// Runs work if the breaker permits it, and reports to the breaker how it went.
  ///
  /// ```swift
  /// let receipt = try payments.run { try client.charge(order) }
  /// ```
  ///
  /// An error of the store never replaces what the work returned or threw. If the process dies
  /// while the work runs, the call has no outcome; a probe's slot goes to the next caller.
  ///
  /// A success through a healthy breaker takes no lock and makes no system call, except once a
  /// second. A call that has to write, as every failure does, waits for other processes for
  /// ``StoreOptions/lockTimeout`` at most; after that the store counts as unavailable.
  ///
  /// - Parameters:
  ///   - outcome: Judges an error of the work; by default every error but a cancellation is a
  ///     failure. In a task that has been cancelled, every error is ignored without being judged.
  ///   - work: The work to run. No lock is held while it runs.
  /// - Returns: The result of the work.
  /// - Throws: The error of the work, or `BreakerError.rejected` if the breaker rejected the call.
  ///   If the store cannot be used and ``StoreFailureAction/throw`` is set, `BreakerError.store`.
  @discardableResult
  @inlinable public func run<Result>(
    outcome: (any Error) -> CallOutcome = Breaker.usualOutcome, _ work: () throws -> Result
  ) throws -> Result {
    try perform(outcome: outcome, work)
  }

  /// Runs work that returns nothing; everything is as for work that returns a value.
  @inlinable public func run(
    outcome: (any Error) -> CallOutcome = Breaker.usualOutcome, _ work: () throws -> Void
  ) throws {
    try perform(outcome: outcome, work)
  }

  /// Runs asynchronous work if the breaker permits it, and reports to the breaker how it went.
  ///
  /// ```swift
  /// let receipt = try await payments.run { try await client.charge(order) }
  /// ```
  ///
  /// The work runs where its caller runs: an actor stays on its own executor. A call that waits for its turn under
  /// `max-concurrent` suspends the task, and a cancellation ends that wait at once. A call that has to write blocks its
  /// thread while it waits for other processes. Everything else, including the parameters, is as outside of a task.
  @discardableResult
  @inlinable public nonisolated(nonsending) func run<Result>(
    outcome: (any Error) -> CallOutcome = Breaker.usualOutcome,
    _ work: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    try await perform(outcome: outcome, work)
  }

  /// Runs asynchronous work that returns nothing; everything is as for work that returns a value.
  @inlinable public nonisolated(nonsending) func run(
    outcome: (any Error) -> CallOutcome = Breaker.usualOutcome,
    _ work: nonisolated(nonsending) () async throws -> Void
  ) async throws {
    try await perform(outcome: outcome, work)
  }

  /// Runs synchronous work in a task if the breaker permits it, and reports to the breaker how it went.
  ///
  /// ```swift
  /// let receipt = try await payments.run { try cache.receipt(of: order) }
  /// ```
  ///
  /// The work occupies one of Swift's shared threads until it returns, as any synchronous code of a task does.
  /// Everything else, including the parameters, is as for asynchronous work.
  @discardableResult
  @inlinable public nonisolated(nonsending) func run<Result>(
    outcome: (any Error) -> CallOutcome = Breaker.usualOutcome, _ work: () throws -> Result
  ) async throws -> Result {
    try await performSuspending(outcome: outcome, work)
  }

  /// Runs synchronous work that returns nothing in a task; everything is as for work that returns a value.
  @inlinable public nonisolated(nonsending) func run(
    outcome: (any Error) -> CallOutcome = Breaker.usualOutcome, _ work: () throws -> Void
  ) async throws {
    try await performSuspending(outcome: outcome, work)
  }
}

/// The course of a call without options.
extension Breaker {
  @inlinable @inline(__always) func perform<Result>(
    outcome: (any Error) -> CallOutcome, _ work: () throws -> Result
  ) throws -> Result {
    let call = enterHealthy()
    guard call.isPermitted else { return try runWithCare(call, outcome: outcome, work) }
    let result: Result
    do {
      result = try work()
    } catch {
      end(call, judged(error, by: outcome))
      throw error
    }
    endHealthy(call)
    return result
  }

  @inlinable @inline(__always) nonisolated(nonsending) func performSuspending<Result>(
    outcome: (any Error) -> CallOutcome, _ work: () throws -> Result
  ) async throws -> Result {
    let call = enterHealthy()
    guard call.isPermitted else { return try await runSuspending(call, outcome: outcome, work) }
    let result: Result
    do {
      result = try work()
    } catch {
      end(call, judged(error, by: outcome))
      throw error
    }
    endHealthy(call)
    return result
  }

  @inlinable @inline(__always) nonisolated(nonsending) func perform<Result>(
    outcome: (any Error) -> CallOutcome,
    _ work: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    let call = enterHealthy()
    guard call.isPermitted else { return try await runWithCare(outcome: outcome, work) }
    let result: Result
    do {
      result = try await work()
    } catch {
      end(call, judged(error, by: outcome))
      throw error
    }
    endHealthy(call)
    return result
  }

  /// Runs work that the healthy path has not permitted.
  ///
  /// It is a function of its own, so that the code of healthy calls stays short.
  @inlinable @inline(never) func runWithCare<Result>(
    _ healthy: HealthyCall, outcome: (any Error) -> CallOutcome, _ work: () throws -> Result
  ) throws -> Result {
    let call = enterLimited(after: healthy)
    guard call.isPermitted else { return try runInTurn(outcome: outcome, work) }
    return try run(under: call, outcome: outcome, work)
  }

  @inlinable func run<Result>(
    under call: LimitedCall, outcome: (any Error) -> CallOutcome, _ work: () throws -> Result
  ) throws -> Result {
    let result: Result
    do {
      result = try CallNesting.inside(room: call.room, work)
    } catch {
      end(call, judged(error, by: outcome))
      throw error
    }
    endLimited(call)
    return result
  }

  @usableFromInline func runInTurn<Result>(
    outcome: (any Error) -> CallOutcome, _ work: () throws -> Result
  ) throws -> Result {
    // First, because most calls that neither path has permitted are rejected here.
    if let rejection = engine.rejectFromMemory(cell) {
      throw BreakerError.rejected(name: name, told(rejection))
    }
    return try run(under: try begin(), outcome: outcome, work)
  }

  private func run<Result>(
    under ticket: Ticket, outcome: (any Error) -> CallOutcome, _ work: () throws -> Result
  ) throws -> Result {
    let result: Result
    do {
      result = try CallNesting.inside(ticket, work)
    } catch {
      end(ticket, judged(error, by: outcome))
      throw error
    }
    end(ticket, .success)
    return result
  }

  /// Runs synchronous work that the healthy path has not permitted, and suspends the task until its turn.
  @inlinable @inline(never) nonisolated(nonsending) func runSuspending<Result>(
    _ healthy: HealthyCall, outcome: (any Error) -> CallOutcome, _ work: () throws -> Result
  ) async throws -> Result {
    let call = enterLimited(after: healthy)
    guard call.isPermitted else { return try await runSuspendedInTurn(outcome: outcome, work) }
    return try run(under: call, outcome: outcome, work)
  }

  @usableFromInline nonisolated(nonsending) func runSuspendedInTurn<Result>(
    outcome: (any Error) -> CallOutcome, _ work: () throws -> Result
  ) async throws -> Result {
    let ticket = try await beginInTurn()
    return try run(under: ticket, outcome: outcome, work)
  }

  @usableFromInline nonisolated(nonsending) func runWithCare<Result>(
    outcome: (any Error) -> CallOutcome, _ work: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    let ticket = try await beginInTurn()
    let result: Result
    do {
      result = try await CallNesting.inside(ticket, work)
    } catch {
      end(ticket, judged(error, by: outcome))
      throw error
    }
    end(ticket, .success)
    return result
  }

  /// Judges an error; in a cancelled task it is ignored, because the cancellation may have caused it.
  @usableFromInline func judged(
    _ error: any Error, by judge: (any Error) -> CallOutcome
  ) -> CallOutcome {
    Task.isCancelled ? .ignored : judge(error)
  }

  /// Asks for a permit; `probeTimeout` can give a probe more time than the policy does.
  func begin(probeTimeout: Duration? = nil) throws(BreakerError) -> Ticket {
    // First, because most calls under a limit are permitted here.
    if let ticket = engine.takeRoom(on: cell, claim) { return ticket }
    return try beginWithCare(probeTimeout)
  }

  /// Asks for a permit that `takeRoom` has not given.
  ///
  /// It is a function of its own, so that the code of limited calls stays short.
  @inline(never) private func beginWithCare(
    _ probeTimeout: Duration?
  ) throws(BreakerError) -> Ticket {
    let call = enterHealthy()
    if call.isPermitted { return Ticket(call) }
    if let rejection = engine.rejectFromMemory(cell) {
      throw .rejected(name: name, told(rejection))
    }
    switch try engine.admit(request(probeTimeout: probeTimeout), to: cell) {
    case .permitted(let ticket): return timed(ticket)
    case .rejected(let rejection): throw .rejected(name: name, told(rejection))
    }
  }

  /// Asks for a permit, and suspends the task while it waits for its turn.
  ///
  /// - Throws: `CancellationError` too, if the task is cancelled while it waits.
  nonisolated(nonsending) func beginInTurn(
    probeTimeout: Duration? = nil, isRetry: Bool = false
  ) async throws -> Ticket {
    switch try await decisionInTurn(probeTimeout: probeTimeout, isRetry: isRetry) {
    case .permitted(let ticket): return ticket
    case .rejected(let rejection):
      throw BreakerError.rejected(name: name, told(rejection))
    }
  }

  /// Asks for the permit of a call that is sent again.
  func beginRetry(probeTimeout: Duration? = nil) throws(BreakerError) -> Ticket {
    switch try decision(probeTimeout: probeTimeout, isRetry: true) {
    case .permitted(let ticket): return ticket
    case .rejected(let rejection): throw .rejected(name: name, told(rejection))
    }
  }

  /// Decides on a call that may be a retry, and waits for the store and for its turn if it has to.
  func decision(
    probeTimeout: Duration?, isRetry: Bool
  ) throws(BreakerError) -> Decision<Ticket> {
    if isRetry, let refusal = engine.retryRefusal(of: cell) { return .rejected(refusal) }
    return kept(try decision(probeTimeout: probeTimeout), isRetry: isRetry)
  }

  /// Decides on a call, and waits for the store and for its turn if it has to.
  private func decision(probeTimeout: Duration?) throws(BreakerError) -> Decision<Ticket> {
    if let ticket = ticketFromMemory() { return .permitted(ticket) }
    return try engine.admit(request(probeTimeout: probeTimeout), to: cell).map(timed)
  }

  /// Decides on a call that may be a retry, and suspends the task while it waits for its turn.
  nonisolated(nonsending) func decisionInTurn(
    probeTimeout: Duration?, isRetry: Bool
  ) async throws -> Decision<Ticket> {
    if isRetry, let refusal = engine.retryRefusal(of: cell) { return .rejected(refusal) }
    return kept(try await decisionInTurn(probeTimeout: probeTimeout), isRetry: isRetry)
  }

  private nonisolated(nonsending) func decisionInTurn(
    probeTimeout: Duration?
  ) async throws -> Decision<Ticket> {
    if let rejection = engine.rejectFromMemory(cell) { return .rejected(rejection) }
    if let ticket = ticketFromMemory() { return .permitted(ticket) }
    return try await engine.admitInTurn(request(probeTimeout: probeTimeout), to: cell).map(timed)
  }

  /// Permits a call from memory, with its room if it is under a limit.
  @inline(__always) private func ticketFromMemory() -> Ticket? {
    let call = enterHealthy()
    return call.isPermitted ? Ticket(call) : engine.takeRoom(on: cell, claim)
  }

  /// Notifies the observer, if there is one, that a call was rejected.
  @inline(__always) func told(_ rejection: Rejection) -> Rejection {
    if let observer = engine.options.observer { observer(.rejected(name: name, rejection)) }
    return rejection
  }

  func request(probeTimeout: Duration?) -> Engine.Request {
    .init(probeTimeout: probeTimeout, onFailure: onStoreFailure, claim: claim)
  }

  func timed(_ ticket: Ticket) -> Ticket {
    var ticket = ticket
    if cell.word.has(CellWord.measures) { ticket.start = engine.clock.instant }
    return ticket
  }

  /// Reports the outcome of a call that does not end as healthy calls do.
  @inline(never) @usableFromInline func end(_ call: HealthyCall, _ outcome: CallOutcome) {
    end(Ticket(call), outcome)
  }

  @discardableResult
  func end(_ ticket: Ticket, _ outcome: CallOutcome, elapsed: Duration? = nil) -> ReportVerdict {
    // The outcome comes first, so that the next caller in this room knows of it.
    defer { if let held = ticket.held { engine.giveBack(held, on: cell) } }
    if outcome == .success, elapsed == nil, counts(ticket) { return .counted }
    return engine.accept(report(outcome, of: ticket, elapsed: elapsed), of: cell)
  }

  /// Whether the time of a probe is over, so that it has failed.
  func hasLost(_ ticket: Ticket) -> Bool {
    ticket.grant.deadline.map { engine.clock.instant >= $0 } ?? false
  }

  /// Counts the success of a call that changes nothing else; false if it has to be reported.
  func counts(_ ticket: Ticket) -> Bool {
    guard engine.isCurrent,
      engine.countSuccess(of: cell, since: ticket.start?.nanoseconds ?? 0, under: ticket.word)
    else { return false }
    engine.noteMarked(ticket, on: cell)
    return true
  }

  func report(_ outcome: CallOutcome, of ticket: Ticket, elapsed: Duration?) -> Engine.Report {
    let measured = ticket.start.map { Duration.nanoseconds(engine.clock.instant.since($0)) }
    return .init(
      outcome: outcome, ticket: ticket, elapsed: elapsed ?? measured,
      isKeptAlone: onStoreFailure == .continueLocally)
  }
}

/// Decides what an error says about the resource, for calls that return a value of any type.
///
/// Write one for a resource, and share it among all of its calls and jobs:
///
/// ```swift
/// let judge: ErrorJudge = { $0 is InvalidOrder ? .ignored : Breaker.usualOutcome(of: $0) }
///
/// let receipt = try payments.run(outcome: judge) { try client.charge(order) }
/// let quote = try await payments.run(timeout: .seconds(2), outcome: judge) {
///   try await client.quote(order)
/// }
/// let job = BreakerJob(payments, outcome: judge) { attempt in client.refund(order, attempt) }
/// ```
public typealias ErrorJudge = @Sendable (any Error) -> CallOutcome

extension Breaker {
  /// Judges an error by default: a cancellation is ignored, and every other error is a failure.
  ///
  /// Any error of a task that has been cancelled is a cancellation too.
  public static func usualOutcome(of error: any Error) -> CallOutcome {
    error is CancellationError || Task.isCancelled
      ? .ignored : .failure(error: String(describing: error))
  }
}
