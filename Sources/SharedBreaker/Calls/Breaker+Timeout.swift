internal import BreakerCore
internal import BreakerStore

/// Running work with a timeout.
extension Breaker {
  /// Runs asynchronous work if the breaker permits it, and gives each attempt a timeout.
  ///
  /// ```swift
  /// let receipt = try await payments.run(timeout: .seconds(2)) {
  ///   try await client.charge(order)
  /// }
  /// ```
  ///
  /// At the deadline the attempt fails, its work is cancelled, and the caller continues even if the
  /// work ignores the cancellation. Such work is abandoned, and how it ends does not matter. A
  /// caller that is cancelled continues at once too, and the outcome is ignored.
  ///
  /// Because the work may outlive its caller, it runs in a task of its own and not on the caller's
  /// actor. Like every task, the caller needs one of Swift's shared threads to continue. If work
  /// blocks all of them, the caller continues when the first of them is free again. Run work that
  /// blocks as a ``BreakerJob``.
  ///
  /// - Parameters:
  ///   - timeout: How long an attempt may take.
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - classify: Judges errors and values; a timeout is always a failure.
  ///   - probeTimeout: How long the work may take as a probe; it counts where it is longer than
  ///     `timeout` and the policy's `probe-timeout`. It does not extend `timeout`.
  ///   - onTimeout: Called when an attempt runs out of time; cancel here what Swift cannot cancel.
  ///     It runs in a thread of the library, which it may block, and the caller does not wait for
  ///     it. So it needs none of Swift's threads.
  ///   - work: The work to run. No lock is held while it runs.
  ///   - onRejection: What to do instead if the work never ran because the breaker rejected the
  ///     call; by default the rejection is thrown.
  ///   - onFailure: What to do instead if the last attempt timed out or threw an error that counts
  ///     as a failure; by default that error is thrown.
  ///   - onFailedValue: What to do instead if the last attempt returned a value that counts as a
  ///     failure; by default that value is returned.
  /// - Returns: What the work or a fallback returned.
  /// - Throws: What the last attempt or a fallback threw, ``CallTimedOut`` if the last attempt took
  ///   too long, `BreakerError.rejected` if the work never ran, or `CancellationError` if the
  ///   caller is cancelled. If the store cannot be used and ``StoreFailureAction/throw`` is set,
  ///   `BreakerError.store`, which no fallback replaces.
  public nonisolated(nonsending) func run<Value: Sendable>(
    timeout: Duration,
    retry: RetryPolicy = .never,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    onTimeout: @escaping @Sendable () -> Void = {},
    _ work: @escaping @Sendable () async throws -> Value,
    onRejection: nonisolated(nonsending) (BreakerError) async throws -> Value = { throw $0 },
    onFailure: nonisolated(nonsending) (any Error) async throws -> Value = { throw $0 },
    onFailedValue: nonisolated(nonsending) (Value) async throws -> Value = { $0 }
  ) async throws -> Value {
    let timer = engine.options.timer
    let timedOut = CallTimedOut(name: name, timeout: timeout)
    return try await run(
      retry: retry, classify: classify, probeTimeout: max(timeout, probeTimeout ?? .zero),
      {
        switch await DeadlineRace.run(work, against: timer, timeout, onTimeout: onTimeout) {
        case .finished(let ending): return try ending.get()
        case .cancelled: throw CancellationError()
        case .timedOut: throw timedOut
        }
      }, onRejection: onRejection, onFailure: onFailure, onFailedValue: onFailedValue)
  }
}
