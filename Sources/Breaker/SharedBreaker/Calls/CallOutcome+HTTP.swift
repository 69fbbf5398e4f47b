public import BreakerCore
public import BreakerStore

/// Outcomes from the answers of HTTP servers.
extension CallOutcome {
  /// Judges an answer by its status and its headers.
  ///
  /// ```swift
  /// let classifier = Classifier<Response>(values: { .http(status: $0.status, headers: $0.headers) })
  /// ```
  ///
  /// - 429 is a hold: the server works, and asks to be left alone until the time that ``RetryAfter`` reads. So is 403
  ///   if its headers name a time, as GitHub's do. It is no failure.
  /// - 408 is a failure, and so is every status from 500 on except 501 and 505. With a `Retry-After` that names a
  ///   time, the failure opens the breaker for that time. Zero seconds, or a date that has passed, make it an
  ///   ordinary failure, and other headers do not count: they stand on answers of every kind.
  /// - A number below 100 is no status: clients use 0 where there was no answer. It is a failure.
  /// - Every other status is a success: the server works, even if it refuses the request.
  ///
  /// - Parameters:
  ///   - status: The status of the answer.
  ///   - headers: The names of the headers, in any case, with their values. A dictionary is one such sequence.
  ///   - permanent: Statuses that are permanent failures whatever the headers say, such as 401 where all callers use
  ///     the same credentials.
  ///   - now: The time by which a date is judged if the answer has no `Date`.
  /// - Returns: The outcome to report.
  public static func http(
    status: Int, headers: some Sequence<(key: String, value: String)>, permanent: Set<Int> = [],
    now: BreakerTimestamp = StoreClock.system.wallTime
  ) -> CallOutcome {
    let error = status < 100 ? "no HTTP answer (status \(status))" : "HTTP \(status)"
    if permanent.contains(status) { return .permanentFailure(error: error) }
    switch status {
    case 429:
      return .hold(for: HTTPTimes(headers, now: now).wait, reason: error)
    case 403:
      guard let wait = HTTPTimes(headers, now: now).wait, wait > .zero else { return .success }
      return .hold(for: wait, reason: error)
    case ..<100, 408, 500, 502...504, 506...:
      // A server that may be asked again at once has not asked to be left alone.
      let wait = HTTPTimes(headers, now: now).asked.flatMap { $0 > .zero ? $0 : nil }
      return .failure(opensFor: wait, error: error)
    default:
      return .success
    }
  }

  /// Judges an answer of which only the `Retry-After` header is at hand, as ``http(status:headers:permanent:now:)``
  /// does.
  ///
  /// - Parameters:
  ///   - status: The status of the answer.
  ///   - retryAfter: The value of the header; nil if the answer has none.
  ///   - permanent: Statuses that are permanent failures.
  ///   - now: The time by which a date in the header is judged.
  /// - Returns: The outcome to report.
  public static func http(
    status: Int, retryAfter: String? = nil, permanent: Set<Int> = [],
    now: BreakerTimestamp = StoreClock.system.wallTime
  ) -> CallOutcome {
    let headers = retryAfter.map { [(key: "retry-after", value: $0)] } ?? []
    return http(status: status, headers: headers, permanent: permanent, now: now)
  }
}

extension Rejection {
  /// The value of a `Retry-After` header for clients that you cannot serve, in whole seconds.
  ///
  /// It is rounded up, so that no client comes back too early, and at least 1. If the time is up to
  /// an operator it is nil: leave out the header then.
  ///
  /// ```swift
  /// } catch BreakerError.rejected(_, let rejection) {
  ///   answer(503, headers: ["Retry-After": rejection.retryAfterHeader])
  /// }
  /// ```
  public var retryAfterHeader: String? {
    retryAfter.map { wait in
      let (seconds, rest) = wait.components
      return String(max(1, seconds.addingSaturating(rest > 0 ? 1 : 0)))
    }
  }
}
