public import BreakerCore
public import BreakerStore

/// What the answer of an HTTP server says about the server.
extension CallOutcome {
  /// Judges an answer by its status, and takes the open time from its `Retry-After` header.
  ///
  /// ```swift
  /// let classifier = Classifier<Response>(values: {
  ///   .http(status: $0.status, retryAfter: $0.headers["Retry-After"])
  /// })
  /// ```
  ///
  /// - 408 and 429 are failures, and so is every status from 500 on except 501 and 505. With a
  ///   `Retry-After` that names a time, the failure opens the breaker for that time. Zero seconds, or
  ///   a date that has passed, make it an ordinary failure.
  /// - Every other status is a success: the server works, even if it refuses the request.
  ///
  /// - Parameters:
  ///   - status: The status of the answer.
  ///   - retryAfter: The value of the header; nil if the answer has none.
  ///   - permanent: Statuses that are permanent failures, such as 401 where all callers use the
  ///     same credentials.
  ///   - now: The time by which a date in the header is judged.
  /// - Returns: The outcome to report.
  public static func http(
    status: Int, retryAfter: String? = nil, permanent: Set<Int> = [],
    now: BreakerTimestamp = StoreClock.system.wallTime
  ) -> CallOutcome {
    let error = "HTTP \(status)"
    if permanent.contains(status) { return .permanentFailure(error: error) }
    let isFailure =
      status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505)
    guard isFailure else { return .success }
    // A server that may be asked again at once has not asked to be left alone.
    let wait = RetryAfter.wait(retryAfter, now: now).flatMap { $0 > .zero ? $0 : nil }
    return .failure(opensFor: wait, error: error)
  }
}
