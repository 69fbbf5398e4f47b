import BreakerCore

@testable import BreakerStore
@testable import ControlKit
@testable import SharedBreaker

/// Breakers made by hand, one of each kind that is shown differently.
enum Samples {
  /// The time at which they are shown: 600 seconds after the first of them was created.
  static let now = Moment(
    boot: Instant(nanoseconds: 900_000_000_000), wallMilliseconds: 1_790_000_600_000)

  static let payments = snapshot(storedPayments)

  static let all = [
    snapshot(sample("search") { _ in }),
    payments,
    snapshot(
      sample("mirror") { record in
        record.state = .open
        record.openUntil = instant(-1)
        record.trips = 1
        record.lastFailureAtMilliseconds = wall(-600)
      }),
    snapshot(
      sample("a-name-that-is-so-long-that-no-terminal-of-eighty-columns-has-room-for-it") {
        $0.state = .halfOpen
        $0.probeSuccesses = 3
        $0.probeFailures = 1
        $0.usualProbeNanoseconds = 20_000_000_000
        $0.leases = [
          ProbeLease(
            id: 1, generation: 1, owner: nil, began: instant(0), deadline: instant(20))
        ]
      }),
    snapshot(
      sample("maintenance") { record in
        record.mode.mode = .forcedOpen
        record.mode.reason = "new disks"
        record.mode.setBy = "deploy, via cbctl"
        record.mode.setAtMilliseconds = wall(-300)
        record.mode.until = instant(7_200)
      }),
    snapshot(
      sample("canary") {
        $0.mode.mode = .observe
        $0.mode.setAtMilliseconds = wall(-400)
      }),
    snapshot(
      sample("結果\u{7}", code: "failures=10 within=1m") { record in
        record.consecutiveFailures = 2
        record.lastFailureAtMilliseconds = wall(-1)
      }),
  ]

  static let history = [
    RecordedEvent(
      id: 1, atMilliseconds: wall(-20), name: "payments",
      change: .transition(from: .closed, to: .open),
      reason: "5 consecutive failures", pid: 42, program: "cbctl",
      mandate: .init(user: "root (login deploy)", command: "curl")),
    RecordedEvent(
      id: 2, atMilliseconds: wall(-10), name: "search",
      change: .mode(from: .automatic, to: .observe),
      reason: nil, pid: 1_234, program: "cbctl", mandate: .init(user: "deploy", command: nil)),
    RecordedEvent(
      id: 3, atMilliseconds: wall(-1), name: "payments",
      change: .policy(from: "", to: "open-for=1m"),
      reason: "two\nlines", pid: 1_234, program: "cbctl"),
    RecordedEvent(
      id: 4, atMilliseconds: wall(-1), name: "search",
      change: .mode(from: .observe, to: .automatic),
      reason: "enough seen", pid: 77, program: "cbrelay", origin: "host-b"),
  ].map { HistoryEntry($0, isAfterGap: false) }

  static func entry(
    _ kind: BreakerChange.Kind, from: String, to: String, secondsAgo: Int64 = 0,
    previous: Int64? = nil
  ) -> HistoryEntry {
    HistoryEntry(
      RecordedEvent(
        id: 9, atMilliseconds: wall(-secondsAgo), name: "payments",
        change: BreakerChange(kind: kind.rawValue, from: from, to: to), reason: nil, pid: 1,
        program: "cbctl", previous: previous), isAfterGap: false)
  }

  /// An entry of the history that has one text in all of its fields.
  static func hostileEntry(_ text: String) -> HistoryEntry {
    HistoryEntry(
      RecordedEvent(
        id: 1, atMilliseconds: wall(-5), name: text,
        change: .policy(from: text, to: text + "2"), reason: text, pid: 1, program: text,
        origin: text),
      isAfterGap: false)
  }

  static func breaker(
    _ name: String, code: String? = nil, madeSecondsAgo age: Int64,
    _ change: (inout BreakerRecord) -> Void = { _ in }
  ) -> BreakerSnapshot {
    var breaker = StoredBreaker(id: 1, name: name, createdAtMilliseconds: wall(-age))
    breaker.words.code = code
    change(&breaker.record)
    return snapshot(breaker)
  }

  static func table(of record: BreakerRecord) -> String {
    StatusTable(snapshots: [snapshot(sample("x") { $0 = record })])
      .render(width: nil, painter: Painter(isOn: false))
  }

  static func page(of record: BreakerRecord) -> String {
    BreakerDetails(
      snapshot: snapshot(sample("x") { $0 = record }), declarations: [], history: [], now: time
    ).page(painter: Painter(isOn: false))
  }

  static let details = BreakerDetails(
    snapshot: payments,
    declarations: [
      declaration("", pid: 43, program: "old-worker", isInForce: false),
      declaration(
        "failure-rate=50% window=1m open-multiplier=1.5", pid: 42, program: "worker",
        isInForce: true),
    ],
    history: history.filter { $0.name == "payments" }, now: time)

  /// `now` on the wall clock.
  static let time = BreakerTimestamp(millisecondsSince1970: now.wallMilliseconds)

  private static let storedPayments = {
    let code = "failure-rate=50% window=1m open-multiplier=1.5"
    return sample("payments", code: code, operator: "open-for=1m") { record in
      record.state = .open
      record.generation = 7
      record.consecutiveFailures = 5
      record.openUntil = Instant(nanoseconds: now.boot.nanoseconds + 11_200_000_000)
      record.trips = 3
      record.tally.since = instant(-20)
      record.tally.nanoseconds.closed = 549_999_999_999
      record.tally.nanoseconds.open = 29_750_000_000
      record.tally.nanoseconds.halfOpen = 250_000_001
      record.tally.entries.closed = 2
      record.tally.entries.open = 3
      record.tally.entries.halfOpen = 2
      record.window = CallWindow(for: BreakerPolicy(failureRate: 0.5, window: .seconds(60)))
      for call in 0..<40 {
        record.window.add(isFailure: call < 15, isSlow: call < 2, at: instant(-20))
      }
      record.totals.successes = 1_000
      record.totals.failures = 15
      record.totals.rejections = 2
      record.changedAtMilliseconds = wall(-20)
      record.openedAtMilliseconds = wall(-20)
      record.lastFailureAtMilliseconds = wall(-20)
      record.lastError = "HTTP 503\u{1b}[31m \"down\"\nfor now"
      record.leases = [
        ProbeLease(id: 1, generation: 1, owner: nil, deadline: instant(12)),
        ProbeLease(
          id: 2, generation: 1,
          owner: ProcessIdentity(pid: 1, startTicks: 1, pidNamespace: 1),
          deadline: instant(30)),
      ]
    }
  }()

  private static func sample(
    _ name: String, code: String? = nil, operator: String? = nil,
    _ change: (inout BreakerRecord) -> Void
  ) -> StoredBreaker {
    var breaker = StoredBreaker(id: 1, name: name, createdAtMilliseconds: wall(-600))
    breaker.words.code = code
    breaker.words.operator = `operator`
    change(&breaker.record)
    return breaker
  }

  private static func snapshot(_ breaker: StoredBreaker) -> BreakerSnapshot {
    BreakerSnapshot(of: breaker, at: now, isGone: { ProcessTable.fate(of: $0) == .over })
  }

  private static func declaration(
    _ words: String, pid: Int32, program: String, isInForce: Bool
  ) -> PolicyDeclaration {
    PolicyDeclaration(
      StoredDeclaration(words: words, atMilliseconds: wall(-500), pid: pid, program: program),
      isInForce: isInForce)
  }

  private static func instant(_ seconds: Int64) -> Instant {
    now.boot.advanced(by: seconds * 1_000_000_000)
  }

  private static func wall(_ seconds: Int64) -> Int64 { now.wallMilliseconds + seconds * 1_000 }
}
