internal import BreakerCore
internal import BreakerStore

/// Running work behind a breaker with retries, a judgement of its own, and fallbacks.
///
/// The order is always the same: the fallbacks are outermost, then the retries, then the breaker,
/// which every attempt asks for a permit, and innermost the timeout of an attempt.
extension Breaker {
  /// Runs work if the breaker lets it through, and again as the retry policy says.
  ///
  /// The thread is held between two attempts. A call whose first attempt was let through and whose
  /// next one is rejected throws the error of the attempt that was made.
  ///
  /// - Parameters:
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - classify: What errors and values say about the resource.
  ///   - probeTimeout: How long the work may take if the call is a probe, where that is longer than
  ///     the policy's `probe-timeout`.
  ///   - work: What to run; what it returns or throws is returned or thrown to the caller.
  ///   - onRejection: What to do instead if the work was never run; by default the error is thrown.
  ///   - onFailure: What to do instead if the last attempt threw an error that is a failure; by
  ///     default the error is thrown.
  /// - Returns: What the work, or what took its place, returned.
  /// - Throws: `BreakerError.rejected` if the work was never run, or what the work threw.
  public func run<Value>(
    retry: RetryPolicy = .never,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: () throws -> Value,
    onRejection: (BreakerError) throws -> Value = { throw $0 },
    onFailure: (any Error) throws -> Value = { throw $0 }
  ) throws -> Value {
    var course = CallCourse(self, retry, probeTimeout: probeTimeout)
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
      guard outcome != .success, let next = course.next(after: nil, outcome) else { return value }
      ticket = next
    }
  }

  /// Runs asynchronous work if the breaker lets it through, and again as the retry policy says.
  ///
  /// The work runs where its caller runs: an actor stays on its own executor. A call whose first
  /// attempt was let through and whose next one is rejected throws the error of the attempt that
  /// was made. A caller that is cancelled while its work runs makes the outcome ignored, whatever
  /// the work throws.
  ///
  /// - Parameters:
  ///   - retry: How often to try, and how long to wait between two attempts.
  ///   - classify: What errors and values say about the resource.
  ///   - probeTimeout: How long the work may take if the call is a probe, where that is longer than
  ///     the policy's `probe-timeout`.
  ///   - work: What to run; what it returns or throws is returned or thrown to the caller.
  ///   - onRejection: What to do instead if the work was never run; by default the error is thrown.
  ///   - onFailure: What to do instead if the last attempt threw an error that is a failure; by
  ///     default the error is thrown.
  /// - Returns: What the work, or what took its place, returned.
  /// - Throws: `BreakerError.rejected` if the work was never run, `CancellationError` if the caller
  ///   is cancelled between two attempts, or what the work threw.
  public nonisolated(nonsending) func run<Value>(
    retry: RetryPolicy = .never,
    classify: Classifier<Value> = .usual,
    probeTimeout: Duration? = nil,
    _ work: nonisolated(nonsending) () async throws -> Value,
    onRejection: nonisolated(nonsending) (BreakerError) async throws -> Value = { throw $0 },
    onFailure: nonisolated(nonsending) (any Error) async throws -> Value = { throw $0 }
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
        return value
      }
      ticket = next
    }
  }

  /// The error of a call that was not let through; any other is thrown, for no fallback is meant.
  private func rejected(_ error: BreakerError) throws(BreakerError) -> BreakerError {
    guard error.rejection != nil else { throw error }
    return error
  }
}

extension BreakerError {
  /// Why the call was not let through; nil if that is not what happened.
  public var rejection: Rejection? {
    if case .rejected(_, let rejection) = self { return rejection }
    return nil
  }

  /// How long to wait until the answer may be another one; nil where nobody knows.
  public var retryAfter: Duration? { rejection?.retryAfter }
}
