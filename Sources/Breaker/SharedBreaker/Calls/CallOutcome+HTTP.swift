public import BreakerCore
public import BreakerStore

/// Outcomes from the answers of HTTP servers.
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
  /// - A number below 100 is no status: clients use 0 where there was no answer. It is a failure.
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
    let error = status < 100 ? "no HTTP answer (status \(status))" : "HTTP \(status)"
    if permanent.contains(status) { return .permanentFailure(error: error) }
    let isFailure =
      status < 100 || status == 408 || status == 429
      || (status >= 500 && status != 501 && status != 505)
    guard isFailure else { return .success }
    // A server that may be asked again at once has not asked to be left alone.
    let wait = RetryAfter.wait(retryAfter, now: now).flatMap { $0 > .zero ? $0 : nil }
    return .failure(opensFor: wait, error: error)
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

/// The value of an HTTP `Retry-After` header, which names seconds or a date.
public enum RetryAfter {
  /// The longest wait that is taken from a header; a server that names more is not believed.
  public static let longest = Duration.seconds(86_400 * 365)

  /// Reads how long to wait from the value of a header.
  ///
  /// ```swift
  /// RetryAfter.wait("120")                              // 120 seconds
  /// RetryAfter.wait("Sun, 22 Nov 2026 10:00:00 GMT")    // until then
  /// ```
  ///
  /// It reads all three forms of a date that RFC 9110 names. A date that has passed is a wait of zero.
  ///
  /// - Parameters:
  ///   - value: The value of the header; nil if the answer has none.
  ///   - now: The time by which a date is judged.
  /// - Returns: How long to wait, at most ``longest``; nil if there is no value or it is neither.
  public static func wait(
    _ value: String?, now: BreakerTimestamp = StoreClock.system.wallTime
  ) -> Duration? {
    guard let value else { return nil }
    let words = value.split(whereSeparator: { $0 == " " || $0 == "\t" })
    if words.count == 1, words[0].utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      // Digits that do not fit into a number are a very long time.
      return min(Int64(words[0]).map { .seconds($0) } ?? longest, longest)
    }
    guard let date = HTTPDate(words, now: now) else { return nil }
    let milliseconds = date.time.millisecondsSince1970.subtractingSaturating(
      now.millisecondsSince1970)
    return max(.zero, min(.milliseconds(milliseconds), longest))
  }
}

/// A date as HTTP writes it, in one of the three forms of RFC 9110, section 5.6.7.
private struct HTTPDate {
  let time: BreakerTimestamp

  init?(_ words: [Substring], now: BreakerTimestamp) {
    let parts: (day: Substring, month: Substring, year: Substring, time: Substring)
    switch words.count {
    case 6 where words[0].hasSuffix(",") && words[5] == "GMT":
      // Sun, 06 Nov 1994 08:49:37 GMT
      parts = (words[1], words[2], words[3], words[4])
    case 4 where words[0].hasSuffix(",") && words[3] == "GMT":
      // Sunday, 06-Nov-94 08:49:37 GMT
      let date = words[1].split(separator: "-", omittingEmptySubsequences: false)
      guard date.count == 3 else { return nil }
      parts = (date[0], date[1], date[2], words[2])
    case 5:
      // Sun Nov  6 08:49:37 1994
      parts = (words[2], words[1], words[4], words[3])
    default:
      return nil
    }
    let clock = parts.time.split(separator: ":", omittingEmptySubsequences: false)
    guard let month = Self.months.firstIndex(where: { $0 == parts.month }), clock.count == 3,
      let year = Self.year(parts.year, now: now), let day = Self.number(parts.day, digits: 1...2),
      let hour = Self.number(clock[0], digits: 2...2),
      let minute = Self.number(clock[1], digits: 2...2),
      let second = Self.number(clock[2], digits: 2...2)
    else { return nil }
    func padded(_ number: Int, _ digits: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
    // A leap second is the next minute's first one.
    let text =
      "\(padded(year, 4))-\(padded(month + 1, 2))-\(padded(day, 2))T\(padded(hour, 2))"
      + ":\(padded(minute, 2)):\(padded(min(second, 59), 2)).000Z"
    guard let time = BreakerTimestamp(text), second <= 60 else { return nil }
    self.time = BreakerTimestamp(
      millisecondsSince1970: time.millisecondsSince1970 + (second == 60 ? 1_000 : 0))
  }

  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// The year; two digits that would be more than 50 years ahead are of the century before.
  private static func year(_ text: Substring, now: BreakerTimestamp) -> Int? {
    if text.utf8.count == 4 { return number(text, digits: 4...4) }
    guard let short = number(text, digits: 2...2), let current = Int(now.description.prefix(4))
    else { return nil }
    let year = current - current % 100 + short
    return year > current + 50 ? year - 100 : year
  }

  private static func number(_ text: Substring, digits: ClosedRange<Int>) -> Int? {
    guard digits.contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) })
    else { return nil }
    return Int(text)
  }
}
