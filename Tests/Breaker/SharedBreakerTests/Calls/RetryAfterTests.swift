import SharedBreaker
import TestSupport
import Testing

/// The value of a `Retry-After` header.
@Suite struct RetryAfterTests {
  /// 2026-11-22T10:00:00Z, a Sunday.
  private static let now = BreakerTimestamp(millisecondsSince1970: 1_795_341_600_000)

  @Test(arguments: [
    ("120", Duration.seconds(120)), ("0", .zero), (" 7 ", .seconds(7)),
    ("Sun, 22 Nov 2026 10:02:00 GMT", .seconds(120)),
    ("Sunday, 22-Nov-26 10:02:00 GMT", .seconds(120)),
    ("Sun Nov 22 10:02:00 2026", .seconds(120)),
    ("Sun Dec  6 10:00:00 2026", .seconds(14 * 86_400)),
    ("Sun, 22 Nov 2026 09:59:59 GMT", .zero), ("Sun, 06 Nov 1994 08:49:37 GMT", .zero),
    ("Sunday, 06-Nov-94 08:49:37 GMT", .zero),
    ("Thu, 31 Dec 2026 23:59:60 GMT", .seconds(3_420_000)),
    ("31536000", RetryAfter.longest), ("45.837906927", .nanoseconds(45_837_906_927)),
    ("1m2.5s", .milliseconds(62_500)), ("1795341660", .seconds(60)),
    ("1795341600250", .milliseconds(250)),
    ("2026-11-22T11:00:30+01:00", .seconds(30)),
  ])
  func `a Retry-After value is seconds, a duration, an epoch or a date`(
    value: String, wait: Duration
  ) {
    #expect(RetryAfter.wait(value, now: Self.now) == wait)
  }

  @Test(arguments: [
    "", " ", "-1", "1.", ".5", "1e3", "soon", "31536001", "99999999999999999999", "999999999999",
    "Fri, 22 Nov 2126 10:00:00 GMT", "366d", "1m2", "m", "1x", "2026-11-22T10:00:30",
    "2026-11-22T10:00:30+1:00", "2026-11-22 10:00:30Z", "2026-11-31T10:00:30Z", "12 34",
    "Sun, 22 Nov 2026", "Sun, 22 Nov 2026 10:02:00 CET",
    "Sun, 31 Feb 2026 10:02:00 GMT", "Sun, 22 Nov 2026 24:02:00 GMT",
    "Sun, 22 Now 2026 10:02:00 GMT", "Sun, 22 Nov 2026 10:02 GMT", "Sun, 22 Nov 2026 1:02:00 GMT",
    "Sun, 22 Nov 2026 10:02:61 GMT", "Sun, +2 Nov 2026 10:02:00 GMT",
    "Sunday, 22-Nov 10:02:00 GMT", "Sun Nov 22 10:02:00 26a7", "१२०",
  ])
  func `a Retry-After value that names no time is ignored`(value: String) {
    #expect(RetryAfter.wait(value, now: Self.now) == nil)
  }

  @Test func `an answer without the header names no wait`() {
    #expect(RetryAfter.wait(nil) == nil)
  }

  @Test(arguments: [
    (Duration.zero, "1"), (.milliseconds(1), "1"), (.seconds(1), "1"), (.milliseconds(1_001), "2"),
    (.seconds(30), "30"), (.seconds(Int64.max), "9223372036854775807"), (nil, nil),
  ])
  func `a rejection has a value for the header that sends no client back too early`(
    wait: Duration?, value: String?
  ) {
    let rejection = Rejection(state: .open, mode: .automatic, retryAfter: wait)
    #expect(rejection.retryAfterHeader == value)
  }

  @Test(
    arguments: [
      (200, nil, CallOutcome.success), (204, "5", .success), (304, nil, .success),
      (404, nil, .success),
      (401, nil, .success), (501, nil, .success), (505, nil, .success),
      (408, nil, .failure(error: "HTTP 408")), (429, nil, .hold(for: nil, reason: "HTTP 429")),
      (429, "5", .hold(for: .seconds(5), reason: "HTTP 429")),
      (500, nil, .failure(error: "HTTP 500")), (503, "soon", .failure(error: "HTTP 503")),
      (503, "0", .failure(error: "HTTP 503")),
      (503, "Sun, 22 Nov 2026 09:59:30 GMT", .failure(error: "HTTP 503")),
      (503, "Sun, 22 Nov 2026 10:00:30 GMT", .failure(opensFor: .seconds(30), error: "HTTP 503")),
      (0, nil, .failure(error: "no HTTP answer (status 0)")),
      (-1, "5", .failure(opensFor: .seconds(5), error: "no HTTP answer (status -1)")),
      (99, nil, .failure(error: "no HTTP answer (status 99)")), (100, nil, .success),
      (600, nil, .failure(error: "HTTP 600")),
      (599, nil, .failure(error: "HTTP 599")), (403, "5", .permanentFailure(error: "HTTP 403")),
    ] as [(Int, String?, CallOutcome)])
  func `an answer is judged by its status and its header`(
    status: Int, retryAfter: String?, outcome: CallOutcome
  ) {
    #expect(
      CallOutcome.http(status: status, retryAfter: retryAfter, permanent: [403], now: Self.now)
        == outcome)
  }

  @Test func `an answer is judged by its status and all its headers, as the shared cases have it`()
    throws
  {
    let folder = "/" + #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let text = String(decoding: try Files.read("\(folder)/Support/http-answers.tsv"), as: UTF8.self)
    let cases = text.split(separator: "\n").filter { !$0.hasPrefix("#") }.map {
      $0.split(separator: "\t")
    }
    #expect(cases.count > 60)
    for parts in cases {
      let headers = parts.dropFirst(2).map { line in
        let colon = line.firstIndex(of: ":") ?? line.endIndex
        return (
          key: String(line[..<colon]), value: String(line[colon...].dropFirst().drop { $0 == " " })
        )
      }
      let outcome = CallOutcome.http(status: Int(parts[0]) ?? 0, headers: headers, now: Self.now)
      #expect(words(for: outcome) == parts[1], "\(parts.joined(separator: " | "))")
    }
  }

  /// An outcome as the shared cases write it.
  private func words(for outcome: CallOutcome) -> String {
    switch outcome {
    case .success: return "success"
    case .ignored: return "ignored"
    case .hold(let hold):
      if case .lasting(let time) = hold.time { return "hold \(time / .milliseconds(1) / 1_000)" }
      return "hold"
    case .failure(let failure):
      if case .opens(let time) = failure.kind {
        return "failure \(time / .milliseconds(1) / 1_000)"
      }
      return "failure"
    }
  }
}
