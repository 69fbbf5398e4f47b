internal import BreakerCore
internal import BreakerStore

/// Running work behind a breaker with retries, a classifier and fallbacks.
///
/// The order is always the same. The fallbacks are outermost. Inside them are the retries, then the
/// breaker, which gives each attempt its own permit, and innermost the timeout of an attempt.
extension Breaker {
  /// Runs work if the breaker permits it, with a classifier or fallbacks.
  ///
  /// ```swift
  /// let rates = try payments.run { try client.rates() } onRejection: { _ in lastKnownRates }
  /// ```
  ///
  /// - Parameters:
  ///   - classify: Judges errors and values.
  ///   - probeTimeout: How long the work may take as a probe; it counts where it is longer than the
  ///     policy's `probe-timeout`.
  ///   - work: The work to run. No lock is held while it runs.
  ///   - onRejection: What to do instead if the work never ran because the breaker rejected the
  ///     call; by default the rejection is thrown.
  ///   - onFailure: What to do instead if the work threw an error that counts as a failure; by
  ///     default that error is thrown.
  ///   - onFailedValue: What to do instead if the work returned a value that counts as a failure;
  ///     by default that value is returned.
  /// - Returns: What the work or a fallback returned.
  /// - Throws: What the work or a fallback threw, or `BreakerError.rejected` if the work never ran.
  ///   If the store cannot be used and ``StoreFailureAction/throw`` is set, `BreakerError.store`,
  ///   which no fallback replaces.
  public func run<Value>(
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: () throws -> Value,
    onRejection: (BreakerError) throws -> Value = { throw $0 },
    onFailure: (any Error) throws -> Value = { throw $0 },
    onFailedValue: (Value) throws -> Value = { $0 }
  ) throws -> Value {
    try run(
      in: CallCourse(self, .never, probeTimeout: probeTimeout), classify, work,
      onRejection, onFailure, onFailedValue)
  }

  /// Runs work if the breaker permits it, and tries again as the retry policy says.
  ///
  /// ```swift
  /// let rates = try payments.run(retry: .fixed(attempts: 3, delay: .seconds(1))) {
  ///   try client.rates()
  /// } onRejection: { _ in
  ///   lastKnownRates
  /// }
  /// ```
  ///
  /// The thread is blocked between two attempts, so a task cannot call this: there the same call
  /// with `await` suspends the task. If the breaker permits the first attempt and rejects a later
  /// one, the call throws the error of the last attempt that was made.
  ///
  /// - Parameters:
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - classify: Judges errors and values.
  ///   - probeTimeout: How long the work may take as a probe; it counts where it is longer than the
  ///     policy's `probe-timeout`.
  ///   - work: The work to run. No lock is held while it runs.
  ///   - onRejection: What to do instead if the work never ran because the breaker rejected the
  ///     call; by default the rejection is thrown.
  ///   - onFailure: What to do instead if the last attempt threw an error that counts as a failure;
  ///     by default that error is thrown.
  ///   - onFailedValue: What to do instead if the last attempt returned a value that counts as a
  ///     failure; by default that value is returned.
  /// - Returns: What the work or a fallback returned.
  /// - Throws: What the last attempt or a fallback threw, or `BreakerError.rejected` if the work
  ///   never ran. If the store cannot be used and ``StoreFailureAction/throw`` is set,
  ///   `BreakerError.store`, which no fallback replaces.
  @available(*, noasync, message: "It would block one of Swift's threads: write 'try await'.")
  public func run<Value>(
    retry: RetryPolicy,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: () throws -> Value,
    onRejection: (BreakerError) throws -> Value = { throw $0 },
    onFailure: (any Error) throws -> Value = { throw $0 },
    onFailedValue: (Value) throws -> Value = { $0 }
  ) throws -> Value {
    try run(
      in: CallCourse(self, retry, probeTimeout: probeTimeout), classify, work,
      onRejection, onFailure, onFailedValue)
  }

  /// Runs work in a task if the breaker permits it, and tries again as the retry policy says.
  ///
  /// ```swift
  /// let rates = try await payments.run(retry: .fixed(attempts: 3, delay: .seconds(1))) {
  ///   try cache.rates()
  /// }
  /// ```
  ///
  /// The work is synchronous, but no thread is blocked between two attempts: the task is suspended.
  /// Everything else is as for asynchronous work.
  ///
  /// - Parameters:
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - classify: Judges errors and values.
  ///   - probeTimeout: How long the work may take as a probe; it counts where it is longer than the
  ///     policy's `probe-timeout`.
  ///   - work: The work to run. No lock is held while it runs.
  ///   - onRejection: What to do instead if the work never ran because the breaker rejected the
  ///     call; by default the rejection is thrown.
  ///   - onFailure: What to do instead if the last attempt threw an error that counts as a failure;
  ///     by default that error is thrown.
  ///   - onFailedValue: What to do instead if the last attempt returned a value that counts as a
  ///     failure; by default that value is returned.
  /// - Returns: What the work or a fallback returned.
  /// - Throws: What the last attempt or a fallback threw, `BreakerError.rejected` if the work never
  ///   ran, or `CancellationError` if the caller is cancelled between two attempts. If the store
  ///   cannot be used and ``StoreFailureAction/throw`` is set, `BreakerError.store`, which no
  ///   fallback replaces.
  public nonisolated(nonsending) func run<Value>(
    retry: RetryPolicy,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: () throws -> Value,
    onRejection: (BreakerError) throws -> Value = { throw $0 },
    onFailure: (any Error) throws -> Value = { throw $0 },
    onFailedValue: (Value) throws -> Value = { $0 }
  ) async throws -> Value {
    // The work is asynchronous here, or this would call itself.
    try await run(
      retry: retry, classify: classify, probeTimeout: probeTimeout,
      { () async throws -> Value in try work() },
      onRejection: onRejection, onFailure: onFailure, onFailedValue: onFailedValue)
  }

  /// Runs asynchronous work if the breaker permits it, and tries again as the retry policy says.
  ///
  /// ```swift
  /// let rates = try await payments.run(retry: .fixed(attempts: 3, delay: .seconds(1))) {
  ///   try await client.rates()
  /// } onRejection: { _ in
  ///   lastKnownRates
  /// }
  /// ```
  ///
  /// The work runs where its caller runs: an actor stays on its own executor. If the breaker
  /// permits the first attempt and rejects a later one, the call throws the error of the last
  /// attempt that was made. If the caller is cancelled while the work runs and the work throws, the
  /// outcome is ignored, whatever the error is.
  ///
  /// - Parameters:
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - classify: Judges errors and values.
  ///   - probeTimeout: How long the work may take as a probe; it counts where it is longer than the
  ///     policy's `probe-timeout`.
  ///   - work: The work to run. No lock is held while it runs.
  ///   - onRejection: What to do instead if the work never ran because the breaker rejected the
  ///     call; by default the rejection is thrown.
  ///   - onFailure: What to do instead if the last attempt threw an error that counts as a failure;
  ///     by default that error is thrown.
  ///   - onFailedValue: What to do instead if the last attempt returned a value that counts as a
  ///     failure; by default that value is returned.
  /// - Returns: What the work or a fallback returned.
  /// - Throws: What the last attempt or a fallback threw, `BreakerError.rejected` if the work never
  ///   ran, or `CancellationError` if the caller is cancelled between two attempts. If the store
  ///   cannot be used and ``StoreFailureAction/throw`` is set, `BreakerError.store`, which no
  ///   fallback replaces.
  public nonisolated(nonsending) func run<Value>(
    retry: RetryPolicy = .never,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: nonisolated(nonsending) () async throws -> Value,
    onRejection: nonisolated(nonsending) (BreakerError) async throws -> Value = { throw $0 },
    onFailure: nonisolated(nonsending) (any Error) async throws -> Value = { throw $0 },
    onFailedValue: nonisolated(nonsending) (Value) async throws -> Value = { $0 }
  ) async throws -> Value {
    var course = CallCourse(self, retry, probeTimeout: probeTimeout)
    var ticket: Ticket
    do throws(BreakerError) { ticket = try course.begin() } catch {
      return try await onRejection(rejected(error))
    }
    while true {
      let value: Value
      do { value = try await work() } catch {
        let outcome = course.outcome(of: error, classify.errors)
        end(ticket, outcome)
        guard let next = try await course.nextInTime(after: error, outcome) else {
          guard outcome.isFailure else { throw error }
          return try await onFailure(error)
        }
        ticket = next
        continue
      }
      let outcome = classify.values(value)
      end(ticket, outcome)
      guard outcome != .success, let next = try await course.nextInTime(after: nil, outcome) else {
        return outcome.isFailure ? try await onFailedValue(value) : value
      }
      ticket = next
    }
  }

  private func run<Value>(
    in begun: CallCourse, _ classify: Classifier<Value>, _ work: () throws -> Value,
    _ onRejection: (BreakerError) throws -> Value, _ onFailure: (any Error) throws -> Value,
    _ onFailedValue: (Value) throws -> Value
  ) throws -> Value {
    var course = begun
    var ticket: Ticket
    do throws(BreakerError) { ticket = try course.begin() } catch {
      return try onRejection(rejected(error))
    }
    while true {
      let value: Value
      do { value = try work() } catch {
        let outcome = course.outcome(of: error, classify.errors)
        end(ticket, outcome)
        guard let next = course.next(after: error, outcome) else {
          guard outcome.isFailure else { throw error }
          return try onFailure(error)
        }
        ticket = next
        continue
      }
      let outcome = classify.values(value)
      end(ticket, outcome)
      guard outcome != .success, let next = course.next(after: nil, outcome) else {
        return outcome.isFailure ? try onFailedValue(value) : value
      }
      ticket = next
    }
  }

  /// Returns the error of a rejection; throws any other error, which no fallback is meant for.
  private func rejected(_ error: BreakerError) throws(BreakerError) -> BreakerError {
    guard error.rejection != nil else { throw error }
    return error
  }
}

extension BreakerError {
  /// Why the breaker rejected the call; nil if the error is another one.
  public var rejection: Rejection? {
    if case .rejected(_, let rejection) = self { return rejection }
    return nil
  }

  /// How long to wait before calls may be permitted; nil if nobody can know.
  public var retryAfter: Duration? { rejection?.retryAfter }
}
