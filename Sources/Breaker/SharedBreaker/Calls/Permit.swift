public import BreakerCore
internal import BreakerStore
internal import Synchronization

/// The right to make one call, used up by a report of how it went; shared() makes one that you can keep.
///
/// Use a permit where `run` does not fit, such as when a call begins in one function and ends in
/// another:
///
/// ```swift
/// let permit = try payments.acquire()
/// if send(request) { permit.succeed() } else { permit.fail(error: "refused") }
/// ```
///
/// Reporting consumes the permit, so it cannot be used twice. To keep it in a closure, a task or a
/// dictionary until the call has ended, turn it into a ``SharedPermit`` with ``shared()``. A permit that is dropped without a
/// report counts as ignored: the breaker takes neither credit nor blame, and a probe's slot is free
/// again.
///
/// The permit of a probe is a lease. If the process dies, the next caller gets the slot at once,
/// unless the other processes cannot see that it has died, as across PID namespaces. If the probe
/// has not reported by `probe-timeout`, it has failed, and a later report is refused; a probe that
/// needs more time calls ``renew(for:)``.
///
/// A child of a fork does not own the permits of its parent: what it reports for them is refused.
public struct Permit: ~Copyable, Sendable {
  let breaker: Breaker
  let ticket: Ticket
  private var isUsed = false

  init(_ breaker: Breaker, _ ticket: Ticket) {
    self.breaker = breaker
    self.ticket = ticket
  }

  deinit { if !isUsed { breaker.end(ticket, .ignored) } }

  /// Whether the permit is for an ordinary call or for a probe.
  public var kind: PermitKind { ticket.kind }

  /// Reports that the call succeeded.
  ///
  /// If the store cannot be used, the report goes to the breaker that stands in for it in this
  /// process. Reporting never throws.
  ///
  /// - Parameter elapsed: How long the call took; if nil, the time since the permit was given.
  /// - Returns: The verdict on the report.
  @discardableResult
  public consuming func succeed(elapsed: Duration? = nil) -> ReportVerdict {
    use(.success, elapsed)
  }

  /// Reports that the call failed in the ordinary way.
  ///
  /// A failure that is permanent or names its open time has more to say:
  /// `permit.report(.failure(opensFor: .seconds(30)))`.
  ///
  /// If the store cannot be used, the report goes to the breaker that stands in for it in this
  /// process. Reporting never throws.
  ///
  /// - Parameters:
  ///   - error: A description of the error, for people to read.
  ///   - elapsed: How long the call took; if nil, the time since the permit was given.
  /// - Returns: The verdict on the report.
  @discardableResult
  public consuming func fail(error: String? = nil, elapsed: Duration? = nil) -> ReportVerdict {
    use(.failure(error: error), elapsed)
  }

  /// Reports that the call tells you nothing about the resource.
  ///
  /// - Returns: The verdict on the report.
  @discardableResult
  public consuming func ignore() -> ReportVerdict { use(.ignored, nil) }

  /// Reports how the call went.
  ///
  /// - Parameters:
  ///   - outcome: The outcome of the call.
  ///   - elapsed: How long the call took; if nil, the time since the permit was given.
  /// - Returns: The verdict on the report.
  @discardableResult
  public consuming func report(_ outcome: CallOutcome, elapsed: Duration? = nil) -> ReportVerdict {
    use(outcome, elapsed)
  }

  /// Renews the lease of a probe that is still making progress.
  ///
  /// A probe that has not reported by `probe-timeout` has failed, and its report is refused. A
  /// probe that takes longer renews its lease before that:
  ///
  /// ```swift
  /// let permit = try payments.acquire()
  /// for part in parts {
  ///   try upload(part)
  ///   guard try permit.renew() else { return }  // Its outcome no longer counts.
  /// }
  /// permit.succeed()
  /// ```
  ///
  /// Renewing never shortens a lease. An ordinary permit has no lease to lose: renewing it does
  /// nothing and returns true.
  ///
  /// - Parameter time: How long the lease lasts from now on; `probe-timeout` if nil.
  /// - Returns: Whether the outcome of the call will still count; if not, the probe has lost its lease.
  /// - Throws: `BreakerError.store` if the store cannot be used. The lease is unchanged: try again.
  @discardableResult
  public func renew(for time: Duration? = nil) throws(BreakerError) -> Bool {
    try breaker.renew(ticket, for: time)
  }

  /// Turns the permit into one that can be kept in a closure, a task or a dictionary.
  public consuming func shared() -> SharedPermit {
    isUsed = true
    return SharedPermit(breaker, ticket)
  }

  private mutating func use(_ outcome: CallOutcome, _ elapsed: Duration?) -> ReportVerdict {
    isUsed = true
    return breaker.end(ticket, outcome, elapsed: elapsed)
  }
}

/// The answer to a call: a permit, or the reason for the rejection.
///
/// No version adds cases, so a `switch` over an answer needs no `default`.
public enum PermitDecision: ~Copyable, Sendable {
  /// The breaker permits the call.
  case permitted(Permit)

  /// The breaker rejects the call.
  case rejected(Rejection)
}

extension Breaker {
  /// Asks for the right to make one call, and throws if the breaker rejects it.
  ///
  /// - Parameters:
  ///   - probeTimeout: How long the call may take as a probe; it counts where it is longer than the policy's
  ///     `probe-timeout`.
  ///   - isRetry: Whether the call is sent again; then `retry-budget` may reject it.
  /// - Returns: The permit, which belongs to this process: if the process ends, a probe's slot is
  ///   free again.
  /// - Throws: `BreakerError.rejected` if the breaker rejects the call, and `BreakerError.store` if
  ///   the store cannot be used and ``StoreFailureAction/throw`` is set.
  public func acquire(
    probeTimeout: Duration? = nil, isRetry: Bool = false
  ) throws(BreakerError) -> Permit {
    let ticket =
      try isRetry ? beginRetry(probeTimeout: probeTimeout) : begin(probeTimeout: probeTimeout)
    return Permit(self, ticket)
  }

  /// Asks for the right to make one call, and suspends the task until its turn under `max-concurrent`.
  ///
  /// ```swift
  /// let permit = try await model.acquire()
  /// ```
  ///
  /// In asynchronous code, this is the one that Swift chooses. A cancellation ends the wait at once.
  ///
  /// - Parameters:
  ///   - probeTimeout: How long the call may take as a probe; it counts where it is longer than the policy's
  ///     `probe-timeout`.
  ///   - isRetry: Whether the call is sent again; then `retry-budget` may reject it.
  /// - Returns: The permit, which belongs to this process: if the process ends, a probe's slot is
  ///   free again.
  /// - Throws: `BreakerError.rejected` if the breaker rejects the call, `BreakerError.store` if the
  ///   store cannot be used and ``StoreFailureAction/throw`` is set, and `CancellationError` if the
  ///   task is cancelled while it waits for its turn.
  public nonisolated(nonsending) func acquire(
    probeTimeout: Duration? = nil, isRetry: Bool = false
  ) async throws -> Permit {
    Permit(self, try await beginInTurn(probeTimeout: probeTimeout, isRetry: isRetry))
  }

  /// Asks for the right to make one call, and returns a rejection instead of throwing it.
  ///
  /// ```swift
  /// switch try payments.decide() {
  /// case .permitted(let permit): send(request, reportingTo: permit)
  /// case .rejected(let rejection): answer(503, retryAfter: rejection.retryAfter)
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - probeTimeout: How long the call may take as a probe; it counts where it is longer than the policy's
  ///     `probe-timeout`.
  ///   - isRetry: Whether the call is sent again; then `retry-budget` may reject it.
  /// - Returns: The permit, or the rejection.
  /// - Throws: `BreakerError.store` if the store cannot be used and ``StoreFailureAction/throw`` is
  ///   set; nothing otherwise.
  public func decide(
    probeTimeout: Duration? = nil, isRetry: Bool = false
  ) throws(BreakerError) -> PermitDecision {
    // First, so that nothing has to be kept for later.
    if isRetry { return try decideWithCare(probeTimeout, isRetry: true) }
    if let rejection = engine.rejectFromMemory(cell) { return .rejected(told(rejection)) }
    return try decideWithCare(probeTimeout, isRetry: false)
  }

  /// Decides on a call that is not rejected from memory.
  ///
  /// It is a function of its own, so that the code of rejected calls stays short.
  @inline(never) private func decideWithCare(
    _ probeTimeout: Duration?, isRetry: Bool
  ) throws(BreakerError) -> PermitDecision {
    switch try decision(probeTimeout: probeTimeout, isRetry: isRetry) {
    case .permitted(let ticket): return .permitted(Permit(self, ticket))
    case .rejected(let rejection): return .rejected(told(rejection))
    }
  }

  /// Asks for the right to make one call, and returns a rejection instead of throwing it; it suspends the
  /// task until its turn under `max-concurrent`.
  ///
  /// In asynchronous code, this is the one that Swift chooses. A cancellation ends the wait at once.
  ///
  /// - Parameters:
  ///   - probeTimeout: How long the call may take as a probe; it counts where it is longer than the policy's
  ///     `probe-timeout`.
  ///   - isRetry: Whether the call is sent again; then `retry-budget` may reject it.
  /// - Returns: The permit, or the rejection.
  /// - Throws: `BreakerError.store` if the store cannot be used and ``StoreFailureAction/throw`` is
  ///   set, and `CancellationError` if the task is cancelled while it waits for its turn.
  public nonisolated(nonsending) func decide(
    probeTimeout: Duration? = nil, isRetry: Bool = false
  ) async throws -> PermitDecision {
    switch try await decisionInTurn(probeTimeout: probeTimeout, isRetry: isRetry) {
    case .permitted(let ticket): return .permitted(Permit(self, ticket))
    case .rejected(let rejection): return .rejected(told(rejection))
    }
  }
}

extension Breaker {
  package func renew(_ ticket: Ticket, for time: Duration?) throws(BreakerError) -> Bool {
    do throws(StoreError) {
      return try engine.renew(ticket, of: cell, for: time)
    } catch {
      throw .store(error)
    }
  }
}

/// A permit that you can keep in a closure, a task or a dictionary, and report on once.
///
/// The compiler makes sure that a ``Permit`` is used once; for a shared permit that is checked when you
/// report:
///
/// ```swift
/// let permit = try payments.acquire().shared()
/// client.send(request) { answer in
///   if answer.isOK { permit.succeed() } else { permit.fail(error: answer.text) }
/// }
/// ```
///
/// The first report counts, from any thread. If the last reference goes away without a
/// report, the call counts as ignored, and a probe's slot is free again. Everything else is as for a
/// ``Permit``.
public final class SharedPermit: Sendable {
  private let breaker: Breaker
  private let ticket: Ticket
  private let isUsed = Atomic<Bool>(false)

  init(_ breaker: Breaker, _ ticket: Ticket) {
    self.breaker = breaker
    self.ticket = ticket
  }

  deinit { report(.ignored) }

  /// Whether the permit is for an ordinary call or for a probe.
  public var kind: PermitKind { ticket.kind }

  /// Reports that the call succeeded; see ``Permit/succeed(elapsed:)``.
  ///
  /// - Parameter elapsed: How long the call took; if nil, the time since the permit was given.
  /// - Returns: The verdict on the report; it is refused if there was one before.
  @discardableResult
  public func succeed(elapsed: Duration? = nil) -> ReportVerdict {
    report(.success, elapsed: elapsed)
  }

  /// Reports that the call failed in the ordinary way; see ``Permit/fail(error:elapsed:)``.
  ///
  /// - Parameters:
  ///   - error: A description of the error, for people to read.
  ///   - elapsed: How long the call took; if nil, the time since the permit was given.
  /// - Returns: The verdict on the report; it is refused if there was one before.
  @discardableResult
  public func fail(error: String? = nil, elapsed: Duration? = nil) -> ReportVerdict {
    report(.failure(error: error), elapsed: elapsed)
  }

  /// Reports that the call tells you nothing about the resource.
  ///
  /// - Returns: The verdict on the report; it is refused if there was one before.
  @discardableResult
  public func ignore() -> ReportVerdict { report(.ignored) }

  /// Reports how the call went.
  ///
  /// - Parameters:
  ///   - outcome: The outcome of the call.
  ///   - elapsed: How long the call took; if nil, the time since the permit was given.
  /// - Returns: The verdict on the report; it is refused if there was one before.
  @discardableResult
  public func report(_ outcome: CallOutcome, elapsed: Duration? = nil) -> ReportVerdict {
    guard !isUsed.exchange(true, ordering: .relaxed) else { return .refused }
    return breaker.end(ticket, outcome, elapsed: elapsed)
  }

  /// Renews the lease of a probe that is still making progress; see ``Permit/renew(for:)``.
  ///
  /// - Parameter time: How long the lease lasts from now on; `probe-timeout` if nil.
  /// - Returns: Whether the call is still under way; if not, its outcome will be refused.
  /// - Throws: `BreakerError.store` if the store cannot be used. The lease is unchanged: try again.
  @discardableResult
  public func renew(for time: Duration? = nil) throws(BreakerError) -> Bool {
    guard !isUsed.load(ordering: .relaxed) else { return false }
    return try breaker.renew(ticket, for: time)
  }
}
