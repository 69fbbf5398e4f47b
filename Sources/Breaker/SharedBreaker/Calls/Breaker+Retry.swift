internal import BreakerCore
internal import BreakerStore

/// Running work behind a breaker with retries, a classifier and fallbacks.
///
/// The order is always the same. The fallbacks are outermost. Inside them are the retries, then the
/// breaker, which gives each attempt its own permit, and innermost the timeout of an attempt.
extension Breaker {
  /// Runs work with options if the breaker permits it: with retries, a classifier, or fallbacks.
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
  /// permits the first attempt and rejects a later one for good, the call throws the error of the last
  /// attempt that was made. If the caller is cancelled while the work runs and the work throws, the
  /// outcome is ignored, whatever the error is.
  ///
  /// - Parameters:
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - outcome: Judges errors, instead of the classifier.
  ///   - classify: Judges errors and values.
  ///   - probeTimeout: How long the work may take as a probe; it counts where it is longer than the
  ///     policy's `probe-timeout`.
  ///   - work: The work to run. No lock is held while it runs.
  ///   - onRejection: The fallback if the work never ran because the breaker rejected the call; by
  ///     default the rejection is thrown.
  ///   - onFailure: The fallback if the last attempt threw an error that counts as a failure; by
  ///     default that error is thrown.
  ///   - onFailedValue: The fallback if the last attempt returned a value that counts as a failure;
  ///     by default that value is returned.
  /// - Returns: The result of the work or of a fallback.
  /// - Throws: The error of the last attempt or of a fallback, `BreakerError.rejected` if the work
  ///   never ran, or `CancellationError` if the caller is cancelled between two attempts, also
  ///   while it waits for its turn. If the store cannot be used and ``StoreFailureAction/throw`` is
  ///   set, `BreakerError.store`. No fallback replaces either of these.
  @discardableResult
  public nonisolated(nonsending) func run<Value>(
    retry: RetryPolicy = .never,
    outcome: ErrorJudge? = nil,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: nonisolated(nonsending) () async throws -> Value,
    onRejection: nonisolated(nonsending) (Rejection) async throws -> Value = { throw unmet($0) },
    onFailure: nonisolated(nonsending) (any Error) async throws -> Value = { throw $0 },
    onFailedValue: nonisolated(nonsending) (Value) async throws -> Value = { $0 }
  ) async throws -> Value {
    let classify = classify.with(outcome)
    var course = CallCourse(self, retry, probeTimeout: probeTimeout)
    var ticket: Ticket
    do { ticket = try await course.beginInTurn() } catch let error as BreakerError {
      guard let rejection = error.rejection else { throw error }
      do { return try await onRejection(rejection) } catch is NoFallback { throw error }
    }
    while true {
      let ending: Result<Value, any Error>
      do {
        ending = .success(try await CallNesting.inside(ticket, work))
      } catch {
        ending = .failure(error)
      }
      let outcome = course.end(ticket, ending, classify)
      if let next = try await course.nextInTime(after: ending, outcome) {
        ticket = next
        continue
      }
      switch ending {
      case .success(let value): return outcome.isFailure ? try await onFailedValue(value) : value
      case .failure(let error):
        guard outcome.isFailure else { throw error }
        return try await onFailure(error)
      }
    }
  }

  /// Runs synchronous work in a task with options.
  ///
  /// ```swift
  /// let rates = try await payments.run(retry: .fixed(attempts: 3, delay: .seconds(1))) {
  ///   try cache.rates()
  /// }
  /// ```
  ///
  /// No thread is blocked between two attempts or until the call's turn: the task is suspended. Everything, including
  /// the parameters, is as for asynchronous work.
  @discardableResult
  public nonisolated(nonsending) func run<Value>(
    retry: RetryPolicy = .never,
    outcome: ErrorJudge? = nil,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: () throws -> Value,
    onRejection: (Rejection) throws -> Value = { throw unmet($0) },
    onFailure: (any Error) throws -> Value = { throw $0 },
    onFailedValue: (Value) throws -> Value = { $0 }
  ) async throws -> Value {
    // The work is asynchronous here, or this would call itself.
    try await run(
      retry: retry, outcome: outcome, classify: classify, probeTimeout: probeTimeout,
      { () async throws -> Value in try work() },
      onRejection: onRejection, onFailure: onFailure, onFailedValue: onFailedValue)
  }

  /// Runs work outside of a task with options.
  ///
  /// ```swift
  /// let rates = try payments.run { try client.rates() } onRejection: { _ in lastKnownRates }
  /// ```
  ///
  /// The thread is blocked between two attempts, so a task cannot call this. Everything else, including the parameters,
  /// is as in a task.
  @available(*, noasync, message: "It would block one of Swift's threads: write 'try await'.")
  @discardableResult
  public func run<Value>(
    retry: RetryPolicy = .never,
    outcome: ErrorJudge? = nil,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: () throws -> Value,
    onRejection: (Rejection) throws -> Value = { throw unmet($0) },
    onFailure: (any Error) throws -> Value = { throw $0 },
    onFailedValue: (Value) throws -> Value = { $0 }
  ) throws -> Value {
    let classify = classify.with(outcome)
    var course = CallCourse(self, retry, probeTimeout: probeTimeout)
    var ticket: Ticket
    do throws(BreakerError) { ticket = try course.begin() } catch {
      // No fallback is meant for any other error.
      guard let rejection = error.rejection else { throw error }
      do { return try onRejection(rejection) } catch is NoFallback { throw error }
    }
    while true {
      let ending: Result<Value, any Error> = Result { try CallNesting.inside(ticket, work) }
      let outcome = course.end(ticket, ending, classify)
      if let next = try course.next(after: ending, outcome) {
        ticket = next
        continue
      }
      switch ending {
      case .success(let value): return outcome.isFailure ? try onFailedValue(value) : value
      case .failure(let error):
        guard outcome.isFailure else { throw error }
        return try onFailure(error)
      }
    }
  }
}

/// The error of a fallback that a call was not given, in whose place the rejection is thrown.
@usableFromInline func unmet(_ rejection: Rejection) -> any Error { NoFallback() }

/// A call was rejected that has no fallback for it.
private struct NoFallback: Error {}

/// Decides what the error or the value of a call says about the resource.
///
/// ```swift
/// let http = Classifier<Response>(
///   errors: { $0 is InvalidRequest ? .ignored : Breaker.usualOutcome(of: $0) },
///   values: { $0.status >= 500 ? .failure(error: "HTTP \($0.status)") : .success })
/// ```
///
/// A value that means failure is still returned to the caller, unless the call has a fallback for
/// it (`onFailedValue`).
///
/// A classifier belongs to one type of values, because it judges them. To judge errors alone, write
/// an ``ErrorJudge``, and pass it as `outcome` to calls that return a value of any type. If a call
/// has both, the `outcome` judges its errors and the classifier its values.
public struct Classifier<Value>: Sendable {
  let errors: ErrorJudge
  let values: @Sendable (Value) -> CallOutcome

  /// Creates a classifier for errors and values.
  ///
  /// - Parameters:
  ///   - errors: Judges an error; by default every error but a cancellation is a failure.
  ///   - values: Judges a value; by default every value is a success.
  public init(
    errors: @escaping ErrorJudge = Breaker.usualOutcome,
    values: @escaping @Sendable (Value) -> CallOutcome = { _ in .success }
  ) {
    self.errors = errors
    self.values = values
  }

  /// This classifier, but with a judge of errors if there is one.
  func with(_ judge: ErrorJudge?) -> Classifier {
    judge.map { Classifier(errors: $0, values: values) } ?? self
  }

  /// A classifier to which every error but a cancellation is a failure, and every value a success.
  public static var usual: Classifier { Classifier() }

  /// Creates a classifier for values; every error but a cancellation is a failure.
  public static func values(_ judge: @escaping @Sendable (Value) -> CallOutcome) -> Classifier {
    Classifier(values: judge)
  }
}

/// The course of one call: ends each attempt, and decides whether another one follows.
private struct CallCourse {
  private let breaker: Breaker
  private let probeTimeout: Duration?
  private var attempts: RetryPolicy.Attempts

  init(_ breaker: Breaker, _ retry: RetryPolicy, probeTimeout: Duration?) {
    self.breaker = breaker
    self.probeTimeout = probeTimeout
    attempts = RetryPolicy.Attempts(retry)
  }

  /// Asks for the permit of the first attempt.
  func begin() throws(BreakerError) -> Ticket {
    try breaker.begin(probeTimeout: probeTimeout)
  }

  nonisolated(nonsending) func beginInTurn() async throws -> Ticket {
    try await breaker.beginInTurn(probeTimeout: probeTimeout)
  }

  /// Judges an attempt and reports its outcome, which is returned.
  func end<Value>(
    _ ticket: Ticket, _ ending: Result<Value, any Error>, _ classify: Classifier<Value>
  ) -> CallOutcome {
    let outcome =
      switch ending {
      case .success(let value): classify.values(value)
      case .failure(let error): judged(error, by: classify.errors)
      }
    breaker.end(ticket, outcome)
    return outcome
  }

  /// Judges an error; a timeout is a failure, whatever the judge says.
  private func judged(_ error: any Error, by judge: ErrorJudge) -> CallOutcome {
    if let error = error as? CallTimedOut, error.name == breaker.name {
      return .failure(error: error.description)
    }
    return breaker.judged(error, by: judge)
  }

  /// Blocks the thread until the next attempt and returns its permit; nil if there is none.
  ///
  /// - Throws: The error that prevents the attempt although the breaker has not rejected it, such
  ///   as one of the store: the attempt before has nothing to do with that.
  mutating func next<Value>(
    after ending: Result<Value, any Error>, _ outcome: CallOutcome
  ) throws(BreakerError) -> Ticket? {
    var wait = wait(after: ending, outcome)
    while let time = wait {
      breaker.engine.options.timer.block(for: time)
      do throws(BreakerError) {
        return try breaker.beginRetry(probeTimeout: probeTimeout)
      } catch {
        guard let rejection = error.rejection else { throw error }
        wait = attempts.wait(after: rejection)
      }
    }
    return nil
  }

  /// Suspends the task until the next attempt and returns its permit; nil if there is none.
  ///
  /// - Throws: The error of `next`, and `CancellationError` if the task is cancelled while it
  ///   waits.
  mutating nonisolated(nonsending) func nextInTime<Value>(
    after ending: Result<Value, any Error>, _ outcome: CallOutcome
  ) async throws -> Ticket? {
    var wait = wait(after: ending, outcome)
    while let time = wait {
      try await breaker.engine.options.timer.sleep(for: time)
      do {
        return try await breaker.beginInTurn(probeTimeout: probeTimeout, isRetry: true)
      } catch let error as BreakerError {
        guard let rejection = error.rejection else { throw error }
        wait = attempts.wait(after: rejection)
      }
    }
    return nil
  }

  /// How long to wait for the next attempt; nil if there is none.
  private mutating func wait<Value>(
    after ending: Result<Value, any Error>, _ outcome: CallOutcome
  ) -> Duration? {
    var error: (any Error)?
    switch ending {
    case .success: if outcome == .success { return nil }
    case .failure(let thrown): error = thrown
    }
    guard !Task.isCancelled else { return nil }
    // With library evolution the closure must not use `self`, which `wait` changes.
    let breaker = breaker
    let policy = attempts.policy
    return attempts.wait(
      after: outcome, error: error,
      unless: breaker.snapshot().rejection.map { breaker.spread($0, for: policy) })
  }
}

extension Breaker {
  /// Lengthens the wait of a rejection by the policy's jitter, so that many callers do not all retry when a hold ends.
  ///
  /// The wait stays well below the longest one of the caller, because another call may go first then.
  @_spi(Command) public func spread(_ rejection: Rejection, for retry: RetryPolicy) -> Rejection {
    guard let exact = rejection.retryAfter, exact < retry.longest else { return rejection }
    var spread = cell.spread(rejection)
    let room = (retry.longest - exact) / 2
    let longer = (spread.retryAfter ?? exact) - exact
    // Nearly all of it where there is much room, and never all of the room, of which different shares are left.
    if longer > .zero { spread.retryAfter = exact + longer * (room / (room + longer)) }
    return spread
  }
}
