import BreakerCore
import BreakerDocuments
import SharedBreaker
import Testing

@testable import ControlKit

struct RenderingTests {
  private static let now = BreakerTimestamp(
    millisecondsSince1970: Samples.now.wallMilliseconds)

  @Test func `the status table of a pipe matches its snapshot`() {
    let table = StatusTable(snapshots: Samples.all)
    Golden.expect(table.render(width: nil, painter: Painter(isOn: false)), "status-pipe.txt")
  }

  @Test func `the status table of an 80-column terminal matches its snapshot`() {
    let table = StatusTable(snapshots: Samples.all, now: Self.now)
    let text = table.render(width: 80, painter: Painter(isOn: false))
    for line in text.split(separator: "\n") { #expect(TextWidth.of(String(line)) <= 80, "\(line)") }
    Golden.expect(text, "status-terminal.txt")
  }

  @Test func `the status table of a 160-column terminal matches its snapshot`() {
    let table = StatusTable(snapshots: Samples.all, now: Self.now)
    let text = table.render(width: 160, painter: Painter(isOn: false))
    for line in text.split(separator: "\n") {
      #expect(TextWidth.of(String(line)) <= 160, "\(line)")
    }
    Golden.expect(text, "status-wide.txt")
  }

  @Test(arguments: 1...170)
  func `the status table fits every terminal`(width: Int) {
    // The columns that must be there have at least one character each.
    let table = StatusTable(snapshots: Samples.all, now: Self.now)
    let text = table.render(width: width, painter: Painter(isOn: false))
    for line in text.split(separator: "\n") {
      #expect(TextWidth.of(String(line)) <= max(width, 7), "\(line)")
    }
    #expect(text.contains("payments") || width < 36)
  }

  @Test func `every line of a status table in a pipe has one word in each column`() {
    let names = Samples.all.filter { !$0.name.contains(" ") }
    let text = StatusTable(snapshots: names).render(width: nil, painter: Painter(isOn: false))
    for line in text.split(separator: "\n") {
      #expect(line.split(separator: " ").count == 16, "\(line)")
    }
  }

  @Test func `the summary line counts the breakers and tells the next retry`() {
    let plain = Painter(isOn: false)
    #expect(SummaryLine.text(of: [], painter: plain) == "0 breakers")
    #expect(
      SummaryLine.text(of: [Samples.payments], painter: plain).hasPrefix("1 breaker: 1 open;"))
  }

  @Test func `the worst breakers are named in a line that fits, unless all are well`() {
    #expect(
      SummaryLine.worst(of: Samples.all, width: 40) == "worst: payments, a-name-that-is-so-long…")
    #expect(SummaryLine.worst(of: [Samples.breaker("x", madeSecondsAgo: 1)], width: 40) == nil)
  }

  @Test func `a name that is shortened keeps both its ends`() {
    #expect(TextWidth.cutInside("payments-eu-1", to: 9) == "paym…eu-1")
    #expect(TextWidth.cutInside("payments", to: 8) == "payments")
    #expect(TextWidth.cutInside("結果結果", to: 6) == "結…果")
    for width in 1...9 {
      #expect(TextWidth.of(TextWidth.cutInside("a結b果cdefgh", to: width)) <= width)
    }
  }

  @Test func `colours change nothing in a table but its colours`() {
    let table = StatusTable(snapshots: Samples.all, now: Self.now)
    let plain = table.render(width: 80, painter: Painter(isOn: false))
    let colored = table.render(width: 80, painter: Painter(isOn: true))
    #expect(colored.contains("\u{1b}[31mopen\u{1b}[0m"))
    #expect(colored.replacing(/\u{1b}\[\d*m/, with: "") == plain)
  }

  @Test func `the worst breaker comes first`() {
    let names = WorryOrder.sorted(Samples.all.reversed()).map(\.name)
    #expect(names == WorryOrder.sorted(Samples.all).map(\.name))
    #expect(names.first == "payments")
    #expect(names.last == "search")
  }

  @Test func `no line of a table ends in a space or has a tab`() {
    var table = Table(columns: [.init(title: "A"), .init(title: "B", isRightAligned: true)])
    table.rows = [[.init("x"), .init("")], [.init("a\tb"), .init("12")]]
    #expect(table.render() == "A         B\nx\na\\u{9}b  12\n")
  }

  @Test func `the page of a breaker matches its snapshots`() {
    let page = Samples.details.page(painter: Painter(isOn: false))
    Golden.expect(page, "show.txt")
    for line in page.split(separator: "\n") { #expect(TextWidth.of(String(line)) <= 80, "\(line)") }
    let wide = Samples.details.page(width: 160, painter: Painter(isOn: true))
    Golden.expect(wide, "show-wide.txt")
  }

  @Test(arguments: [32, 36, 40, 60])
  func `a narrow terminal breaks the page of a breaker in no time of it`(width: Int) {
    let page = Samples.details.page(width: width, painter: Painter(isOn: false))
    let times = Samples.details.page(width: 160, painter: Painter(isOn: false))
      .matches(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/).map { String($0.0) }
    #expect(times.count >= 4)
    for time in times { #expect(page.contains(time), "\(time)") }
    let widths = page.split(separator: "\n").map { TextWidth.of(String($0)) }
    #expect(widths.allSatisfy { $0 <= width }, "\(page)")
  }

  @Test func `the JSON documents match their snapshots`() {
    let status = BreakerDocument.list(Samples.all).text
    let show = BreakerDocument.list(of: [Samples.details.json]).text
    Golden.expect(status + "\n", "status.json")
    Golden.expect(show + "\n", "show.json")
    Golden.expect(Samples.history.map { EntryDocument.of($0).text + "\n" }.joined(), "history.json")
  }

  @Test func `a document written in pieces is the whole document`() {
    let many = Array(repeating: Samples.all, count: 50).flatMap { $0 }
    for snapshots in [[], Samples.all, many] {
      var pieces: [String] = []
      BreakerDocument.write(snapshots) { pieces.append($0) }
      #expect(pieces.joined() == BreakerDocument.list(snapshots).text + "\n")
      #expect((pieces.count > 1) == (snapshots.count > 50))
    }
  }

  @Test func `large totals make no line of a breaker's page wider than 80 columns`() {
    var record = BreakerRecord()
    record.totals.successes = 1_234_567_890
    record.totals.failures = 123_456_789
    record.totals.ignored = 12_345_678
    record.totals.rejections = 123_456_789
    record.totals.slow = 1_234_567
    record.totals.wouldReject = 1_234_567
    let page = Samples.page(of: record)
    for line in page.split(separator: "\n") { #expect(TextWidth.of(String(line)) <= 80, "\(line)") }
    #expect(page.contains(", 1234567 would have been\n"))
    #expect(!page.contains("window"))
    #expect(Samples.page(of: BreakerRecord()).contains("totals        no calls yet"))
  }

  @Test func `failures beyond the maximum are shown with the maximum too`() {
    var record = BreakerRecord()
    record.consecutiveFailures = 6
    #expect(Samples.table(of: record).contains("     6/5     -      0  -"))
    record.consecutiveFailures = 5
    #expect(Samples.table(of: record).contains("     5/5     -      0  -"))
  }

  @Test func `a half-open breaker with a free slot is due and one without is not`() {
    var record = BreakerRecord()
    record.state = .halfOpen
    #expect(Samples.table(of: record).contains("  due  "))
    #expect(Samples.page(of: record).hasPrefix("x: half_open, the next call is a probe\n"))
    let now = Samples.now.boot
    record.leases = [
      ProbeLease(id: 1, generation: 1, owner: nil, deadline: now.advanced(by: 5_000_000_000))
    ]
    #expect(Samples.table(of: record).contains("  1s  "))
    record.leases[0].deadline = now.advanced(by: -1)
    let page = Samples.page(of: record)
    #expect(page.hasPrefix("x: open, retry in "), "\(page)")
    #expect(!page.contains("Probes under way"))
    #expect(page.contains("last error    the probe took longer than probe-timeout"))
  }

  @Test func `a half-open breaker that holds probes back tells when the next one may begin`() {
    var record = BreakerRecord()
    record.state = .halfOpen
    record.openUntil = Samples.now.boot.advanced(by: 5_000_000_000)
    #expect(Samples.table(of: record).contains("  5s  "))
    let page = Samples.page(of: record)
    #expect(page.hasPrefix("x: half_open, retry in 5s\n"), "\(page)")
    record.openUntil = Samples.now.boot
    #expect(Samples.page(of: record).hasPrefix("x: half_open, the next call is a probe\n"))
  }

  @Test(arguments: [(0.5, "50%"), (1.0 / 3, "33.3%"), (0.9996, "100%"), (0, "0%"), (.nan, "-")])
  func `a percentage has one decimal at most`(share: Double, text: String) {
    #expect(RateWords.format(share) == text)
  }

  @Test func `the history says how a probe ended and that an open time was extended`() {
    let entries = [
      Samples.entry(.probe, from: "probe", to: "timed_out"),
      Samples.entry(.extended, from: "open", to: "extended"),
    ]
    #expect(entries.map(HistoryLines.words) == ["probe -> timed_out", "open -> extended"])
    let lines = HistoryLines().render(entries.map { .entry($0) })
    #expect(lines[0].contains("  probe      probe -> timed_out  "))
    #expect(lines[1].contains("  extension  open -> extended    "))
  }

  @Test func `a long change pushes no other line of the history aside`() {
    var entries = Samples.history
    entries.append(Samples.entry(.policy, from: "", to: Self.longPolicy))
    let lines = HistoryLines(hasNames: true).render(entries.map { .entry($0) })
    #expect(
      lines.dropLast()
        == HistoryLines(hasNames: true).render(Samples.history.map { .entry($0) })[...])
    #expect(lines.last?.contains("+probe-timeout=30s  cbctl (pid 1)") == true)
  }

  private static let longPolicy =
    "failure-rate=50% window=1m min-calls=20 open-for=1m probes=2 probe-timeout=30s"

  private static let longHistory =
    Samples.history + [
      Samples.entry(.policy, from: longPolicy, to: longPolicy.replacing("1m", with: "90s")),
      Samples.entry(.policy, from: "", to: longPolicy, secondsAgo: 90_000),
      Samples.entry(.policy, from: "probes=2", to: ""),
    ]

  @Test(arguments: [40, 79, 80, 100, 160], [true, false])
  func `the history fits a terminal and breaks only between words`(width: Int, hasNames: Bool) {
    func words(_ lines: [String]) -> [Substring] { lines.flatMap { $0.split(separator: " ") } }
    let entries = Self.longHistory
    let lines = HistoryLines(now: Self.now, width: width, hasNames: hasNames).render(
      entries.map { .entry($0) })
    for line in lines {
      #expect(TextWidth.of(line) <= width, "\(line)")
      #expect(line.last != " ")
    }
    #expect(
      words(lines)
        == words(HistoryLines(now: Self.now, hasNames: hasNames).render(entries.map { .entry($0) }))
    )
    // No terminal has room for this name, so it is broken where a line ends.
    let long = [Samples.hostileEntry(String(repeating: "long-name-", count: 25))]
    for line in HistoryLines(now: Self.now, width: width, hasNames: hasNames).render(
      long.map { .entry($0) })
    {
      #expect(TextWidth.of(line) <= width, "\(line)")
    }
  }

  @Test func `the history of an 80-column terminal matches its snapshot`() {
    let lines = HistoryLines(now: Self.now, width: 80, hasNames: true).render(
      Self.longHistory.map { .entry($0) })
    Golden.expect(lines.map { $0 + "\n" }.joined(), "history-terminal.txt")
  }

  @Test func `the lines of the history match their snapshot`() {
    let lines = HistoryLines(hasNames: true).render(Samples.history.map { .entry($0) })
    Golden.expect(lines.map { $0 + "\n" }.joined(), "history.txt")
  }

  @Test(
    arguments: [
      ([:], 80, true), (["NO_COLOR": ""], 80, true), (["NO_COLOR": "1"], 80, false),
      (["TERM": "dumb"], 80, false), ([:], nil, false),
    ] as [([String: String], Int?, Bool)])
  func `colours are for terminals whose user wants them`(
    environment: [String: String], width: Int?, hasColors: Bool
  ) {
    let console = Recorder().console(width: width, environment: environment)
    #expect(console.hasColors == hasColors)
  }

  @Test func `a time in the future is shown as just now`() {
    let later = BreakerTimestamp(millisecondsSince1970: Self.now.millisecondsSince1970 + 86_400_000)
    #expect(Age.text(of: later, at: Self.now) == "just now")
    #expect(Age.text(of: Self.now, at: later) == "1d ago")
  }
}
