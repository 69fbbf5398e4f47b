internal import BreakerCore
internal import BreakerStore

/// Running work behind a breaker.
extension Breaker {
  /// Judges errors where nothing else is said: a cancellation says nothing about the resource.
  public static func usualOutcome(of error: any Error) -> Outcome {
    error is CancellationError || Task.isCancelled
      ? .ignored : .failure(error: String(describing: error))
  }

  /// Runs work if the breaker lets it through, and tells the breaker how it went.
  ///
  /// - Parameters:
  ///   - outcome: Says what an error of the work means; by default every error but a cancellation
  ///     is a failure.
  ///   - work: What to run; what it returns or throws is returned or thrown to the caller.
  /// - Returns: What the work returned.
  /// - Throws: `BreakerError.rejected` if the call was not let through, or what the work threw.
  @inlinable public func run<Result>(
    outcome: (any Error) -> Outcome = Breaker.usualOutcome, _ work: () throws -> Result
  ) throws -> Result {
    let call = enterHealthy()
    guard call.isPermitted else { return try runWithCare(outcome: outcome, work) }
    let result: Result
    do {
      result = try work()
    } catch {
      end(call, outcome(error))
      throw error
    }
    endHealthy(call)
    return result
  }

  @usableFromInline func runWithCare<Result>(
    outcome: (any Error) -> Outcome, _ work: () throws -> Result
  ) throws -> Result {
    let call = try begin()
    let result: Result
    do {
      result = try work()
    } catch {
      end(call, outcome(error))
      throw error
    }
    end(call, .success)
    return result
  }

  /// Runs asynchronous work if the breaker lets it through, and tells the breaker how it went.
  ///
  /// The work runs where its caller runs: an actor stays on its own executor.
  ///
  /// - Parameters:
  ///   - outcome: Says what an error of the work means; by default every error but a cancellation
  ///     is a failure.
  ///   - work: What to run; what it returns or throws is returned or thrown to the caller.
  /// - Returns: What the work returned.
  /// - Throws: `BreakerError.rejected` if the call was not let through, or what the work threw.
  @inlinable public nonisolated(nonsending) func run<Result>(
    outcome: (any Error) -> Outcome = Breaker.usualOutcome,
    _ work: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    let call = enterHealthy()
    guard call.isPermitted else { return try await runWithCare(outcome: outcome, work) }
    let result: Result
    do {
      result = try await work()
    } catch {
      end(call, outcome(error))
      throw error
    }
    endHealthy(call)
    return result
  }

  @usableFromInline nonisolated(nonsending) func runWithCare<Result>(
    outcome: (any Error) -> Outcome, _ work: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    let call = try begin()
    let result: Result
    do {
      result = try await work()
    } catch {
      end(call, outcome(error))
      throw error
    }
    end(call, .success)
    return result
  }

  /// A call that was let through.
  struct Call {
    var ticket: Ticket

    /// When it began, if the policy looks at how long calls take.
    var start: Instant?

    init(_ ticket: Ticket, at start: Instant?) {
      self.ticket = ticket
      self.start = start
    }

    init(_ call: HealthyCall) {
      let word = CellWord(bits: call.word)
      ticket = Ticket(word)
      start = word.has(CellWord.measures) ? Instant(nanoseconds: call.start) : nil
    }
  }

  /// Asks for a permit; `probeTimeout` is how long a probe may take, if longer than the policy says.
  func begin(probeTimeout: Duration? = nil) throws(BreakerError) -> Call {
    if let rejection = engine.rejectFromMemory(cell) {
      throw .rejected(name: name, told(rejection))
    }
    switch try decideCall(probeTimeout: probeTimeout) {
    case .permitted(let call): return call
    case .rejected(let rejection): throw .rejected(name: name, told(rejection))
    }
  }

  /// Tells the observer, if there is one, that a call was not let through.
  @inline(__always) func told(_ rejection: Rejection) -> Rejection {
    if let observer = engine.options.observer { observer(.rejected(name: name, rejection)) }
    return rejection
  }

  enum CallDecision {
    case permitted(Call)
    case rejected(Rejection)
  }

  func decideCall(probeTimeout: Duration? = nil) throws(BreakerError) -> CallDecision {
    let call = enterHealthy()
    if call.isPermitted { return .permitted(Call(call)) }
    let admission = try engine.admit(
      cell, owner: engine.ownProcess(), onFailure: onStoreFailure, probeTimeout: probeTimeout)
    switch admission {
    case .permitted(let ticket):
      let isMeasured = cell.word.has(CellWord.measures)
      return .permitted(Call(ticket, at: isMeasured ? engine.clock.instant : nil))
    case .rejected(let rejection):
      return .rejected(rejection)
    }
  }

  @discardableResult
  func end(_ call: Call, _ outcome: Outcome, elapsed: Duration? = nil) -> ReportVerdict {
    if outcome == .success, elapsed == nil, engine.isCurrent,
      engine.countSuccess(
        of: cell, since: call.start?.nanoseconds ?? 0, under: call.ticket.word)
    {
      return .counted
    }
    let measured = call.start.map { Duration.nanoseconds(engine.clock.instant.since($0)) }
    return engine.report(outcome, for: call.ticket, of: cell, elapsed: elapsed ?? measured)
  }
}
