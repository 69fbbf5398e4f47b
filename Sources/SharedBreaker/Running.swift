internal import BreakerCore
internal import BreakerStore

/// Running work behind a breaker.
extension Breaker {
  /// Judges errors where nothing else is said: a cancellation says nothing about the resource.
  public static func usualOutcome(of error: any Error) -> Outcome {
    error is CancellationError ? .ignored : .failure(error: String(describing: error))
  }

  /// Runs work if the breaker lets it through, and tells the breaker how it went.
  ///
  /// - Parameters:
  ///   - outcome: Says what an error of the work means; by default every error but a cancellation
  ///     is a failure.
  ///   - work: What to run; what it returns or throws is returned or thrown to the caller.
  /// - Returns: What the work returned.
  /// - Throws: `BreakerError.rejected` if the call was not let through, or what the work threw.
  public func run<Result>(
    outcome: (any Error) -> Outcome = Breaker.usualOutcome, _ work: () throws -> Result
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
  public nonisolated(nonsending) func run<Result>(
    outcome: (any Error) -> Outcome = Breaker.usualOutcome,
    _ work: nonisolated(nonsending) () async throws -> Result
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

  /// A call that was let through, and when it began if that matters.
  struct Call {
    var ticket: Ticket
    var start: Instant?
  }

  func begin() throws(BreakerError) -> Call {
    switch try engine.enter(cell, onFailure: onStoreFailure) {
    case .permitted(let ticket):
      return Call(ticket: ticket, start: engine.measures(cell) ? engine.clock.instant : nil)
    case .rejected(let rejection):
      throw .rejected(name: name, rejection)
    }
  }

  @discardableResult
  func end(_ call: Call, _ outcome: Outcome, elapsed: Duration? = nil) -> ReportVerdict {
    let measured = call.start.map { Duration.nanoseconds(engine.clock.instant.since($0)) }
    return engine.leave(cell, call.ticket, outcome, elapsed: elapsed ?? measured)
  }
}
