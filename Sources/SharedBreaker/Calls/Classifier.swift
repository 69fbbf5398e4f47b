internal import BreakerCore

/// Decides what the error or the value of a call says about the resource.
///
/// A value that means failure is still returned to the caller.
///
/// ```swift
/// let http = Classifier<Response>(
///   errors: { $0 is InvalidRequest ? .ignored : Breaker.usualOutcome(of: $0) },
///   values: { $0.status >= 500 ? .failure(error: "HTTP \($0.status)") : .success })
/// ```
public struct Classifier<Value>: Sendable {
  let errors: @Sendable (any Error) -> CallOutcome
  let values: @Sendable (Value) -> CallOutcome

  /// Creates a classifier for errors and values.
  ///
  /// - Parameters:
  ///   - errors: Judges an error; by default every error but a cancellation is a failure.
  ///   - values: Judges a value; by default every value is a success.
  public init(
    errors: @escaping @Sendable (any Error) -> CallOutcome = Breaker.usualOutcome,
    values: @escaping @Sendable (Value) -> CallOutcome = { _ in .success }
  ) {
    self.errors = errors
    self.values = values
  }

  /// A classifier to which every error but a cancellation is a failure, and every value a success.
  public static var usual: Classifier { Classifier() }

  /// Creates a classifier for errors; every value is a success.
  public static func errors(
    _ judge: @escaping @Sendable (any Error) -> CallOutcome
  ) -> Classifier { Classifier(errors: judge) }

  /// Creates a classifier for values; every error but a cancellation is a failure.
  public static func values(_ judge: @escaping @Sendable (Value) -> CallOutcome) -> Classifier {
    Classifier(values: judge)
  }
}
