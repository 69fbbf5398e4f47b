internal import BreakerCore

/// What the end of a call says about the resource: by the error that was thrown, or by the value.
///
/// ```swift
/// let http = Classifier<Response>(
///   errors: { $0 is InvalidRequest ? .ignored : Breaker.usualOutcome(of: $0) },
///   values: { $0.status >= 500 ? .failure(error: "HTTP \($0.status)") : .success })
/// ```
public struct Classifier<Value>: Sendable {
  let errors: @Sendable (any Error) -> Outcome
  let values: @Sendable (Value) -> Outcome

  /// Says what errors and values mean.
  ///
  /// - Parameters:
  ///   - errors: What an error means; every one but a cancellation is a failure if nothing is said.
  ///   - values: What a value means; every one is a success if nothing is said.
  public init(
    errors: @escaping @Sendable (any Error) -> Outcome = Breaker.usualOutcome,
    values: @escaping @Sendable (Value) -> Outcome = { _ in .success }
  ) {
    self.errors = errors
    self.values = values
  }

  /// Every error but a cancellation is a failure, and every value is a success.
  public static var usual: Classifier { Classifier() }

  /// Says what errors mean; every value is a success.
  public static func errors(
    _ judge: @escaping @Sendable (any Error) -> Outcome
  ) -> Classifier { Classifier(errors: judge) }

  /// Says what values mean; every error but a cancellation is a failure.
  public static func values(_ judge: @escaping @Sendable (Value) -> Outcome) -> Classifier {
    Classifier(values: judge)
  }
}
