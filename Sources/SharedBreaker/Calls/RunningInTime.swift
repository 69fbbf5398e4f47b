internal import BreakerCore
internal import BreakerStore

/// Running work that may take only so long.
extension Breaker {
  /// Runs asynchronous work if the breaker lets it through, and gives each attempt only so long.
  ///
  /// At the deadline the attempt is a failure, its work is cancelled, and the caller is free, also
  /// if the work ignores the cancellation: such work is abandoned, and how it ends does not matter.
  /// A caller that is cancelled is free at once too, and its outcome is ignored.
  ///
  /// Because it may outlive its caller, the work runs in a task of its own and not on the caller's
  /// actor. The caller needs one of Swift's shared threads to go on, as every task does: if work
  /// blocks all of them, the caller is freed when the first of them is free again. Run work that
  /// blocks as a ``BreakerJob``.
  ///
  /// - Parameters:
  ///   - timeout: How long an attempt may take.
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - classify: What errors and values say about the resource; a timeout is always a failure.
  ///   - probeTimeout: How long the work may take if the call is a probe, where that is longer than
  ///     the policy's `probe-timeout`.
  ///   - onTimeout: Is called when an attempt runs out of time, and may cancel what Swift cannot.
  ///   - work: What to run; what it returns or throws is returned or thrown to the caller.
  ///   - onRejection: What to do instead if the work was never run; by default the error is thrown.
  ///   - onFailure: What to do instead if the last attempt threw an error that is a failure; by
  ///     default the error is thrown.
  /// - Returns: What the work, or what took its place, returned.
  /// - Throws: `BreakerError.rejected` if the work was never run, ``CallTimedOut`` if the last
  ///   attempt took too long, `CancellationError` if the caller is cancelled, or what the work threw.
  public nonisolated(nonsending) func run<Value: Sendable>(
    timeout: Duration,
    retry: RetryPolicy = .never,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    onTimeout: () -> Void = {},
    _ work: @escaping @Sendable () async throws -> Value,
    onRejection: nonisolated(nonsending) (BreakerError) async throws -> Value = { throw $0 },
    onFailure: nonisolated(nonsending) (any Error) async throws -> Value = { throw $0 }
  ) async throws -> Value {
    let timer = engine.options.timer
    let timedOut = CallTimedOut(name: name, timeout: timeout)
    return try await run(
      retry: retry, classify: classify, probeTimeout: probeTimeout,
      {
        switch await DeadlineRace.run(work, against: timer, timeout) {
        case .finished(let ending): return try ending.get()
        case .cancelled: throw CancellationError()
        case .timedOut:
          onTimeout()
          throw timedOut
        }
      }, onRejection: onRejection, onFailure: onFailure)
  }
}
