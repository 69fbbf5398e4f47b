internal import BreakerCore

/// Decides what an error says about the resource, whatever type of value the call returns.
///
/// Write one for a resource, and share it among all of its calls and jobs:
///
/// ```swift
/// let judge: ErrorJudge = { $0 is InvalidOrder ? .ignored : Breaker.usualOutcome(of: $0) }
///
/// let receipt = try payments.run(outcome: judge) { try client.charge(order) }
/// let quote = try await payments.run(timeout: .seconds(2), classify: .errors(judge)) {
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
/// an ``ErrorJudge``, and pass it as `.errors(judge)` to calls that return a value of any type.
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

  /// A classifier to which every error but a cancellation is a failure, and every value a success.
  public static var usual: Classifier { Classifier() }

  /// Creates a classifier for errors; every value is a success.
  public static func errors(_ judge: @escaping ErrorJudge) -> Classifier {
    Classifier(errors: judge)
  }

  /// Creates a classifier for values; every error but a cancellation is a failure.
  public static func values(_ judge: @escaping @Sendable (Value) -> CallOutcome) -> Classifier {
    Classifier(values: judge)
  }
}
