import BreakerCore
import SharedBreaker
import Testing

@testable import ControlKit

struct RenderingTests {
  private static let now = Timestamp(
    millisecondsSince1970: Samples.now.wallMilliseconds)

  @Test func `the table of a pipe is as recorded`() {
    let table = StatusTable(snapshots: Samples.all)
    Golden.expect(table.render(width: nil, painter: Painter(isOn: false)), "status-pipe.txt")
  }

  @Test func `the table of an 80-column terminal is as recorded`() {
    let table = StatusTable(snapshots: Samples.all, now: Self.now)
    let text = table.render(width: 80, painter: Painter(isOn: false))
    for line in text.split(separator: "\n") { #expect(TextWidth.of(String(line)) <= 80, "\(line)") }
    Golden.expect(text, "status-terminal.txt")
  }

  @Test func `colours change nothing but colours`() {
    let table = StatusTable(snapshots: Samples.all, now: Self.now)
    let plain = table.render(width: 80, painter: Painter(isOn: false))
    let colored = table.render(width: 80, painter: Painter(isOn: true))
    #expect(colored.contains("\u{1b}[31mopen\u{1b}[0m"))
    #expect(colored.replacing(/\u{1b}\[\d*m/, with: "") == plain)
  }

  @Test func `the worst comes first`() {
    let names = StatusTable.sorted(Samples.all.reversed()).map(\.name)
    #expect(names == StatusTable.sorted(Samples.all).map(\.name))
    #expect(names.first == "payments")
    #expect(names.last == "search")
  }

  @Test func `no line of a table ends in a space or has a tab`() {
    var table = Table(columns: [.init(title: "A"), .init(title: "B", isRightAligned: true)])
    table.rows = [[.init("x"), .init("")], [.init("a\tb"), .init("12")]]
    #expect(table.render() == "A         B\nx\na\\u{9}b  12\n")
  }

  @Test func `the page of a breaker is as recorded`() {
    let page = Samples.details.page(at: Self.now, painter: Painter(isOn: false))
    Golden.expect(page, "show.txt")
  }

  @Test func `the documents are as recorded`() {
    let status = BreakerDocument.list(Samples.all).text
    let show = BreakerDocument.list(of: [Samples.details.json]).text
    Golden.expect(status + "\n", "status.json")
    Golden.expect(show + "\n", "show.json")
    Golden.expect(Samples.history.map { $0.json.text + "\n" }.joined(), "history.json")
  }

  @Test func `a document in pieces is the whole document`() {
    let many = Array(repeating: Samples.all, count: 50).flatMap { $0 }
    for snapshots in [[], Samples.all, many] {
      var pieces: [String] = []
      BreakerDocument.write(snapshots) { pieces.append($0) }
      #expect(pieces.joined() == BreakerDocument.list(snapshots).text + "\n")
      #expect((pieces.count > 1) == (snapshots.count > 50))
    }
  }

  @Test func `no line of the page is too wide for what all breakers have`() {
    var record = BreakerRecord()
    record.totals.successes = 1_234_567_890
    record.totals.failures = 123_456_789
    record.totals.ignored = 12_345_678
    record.totals.rejections = 123_456_789
    record.totals.slow = 1_234_567
    record.totals.wouldReject = 1_234_567
    let page = Samples.page(of: record)
    for line in page.split(separator: "\n") { #expect(TextWidth.of(String(line)) <= 80, "\(line)") }
    #expect(page.contains("1234567 would be rejected"))
    #expect(!page.contains("window"))
    #expect(Samples.page(of: BreakerRecord()).contains("totals        no calls yet"))
  }

  @Test func `failures beyond those that open are only counted`() {
    var record = BreakerRecord()
    record.consecutiveFailures = 6
    #expect(Samples.table(of: record).contains("       6     -         -"))
    record.consecutiveFailures = 5
    #expect(Samples.table(of: record).contains("     5/5     -         -"))
  }

  @Test func `a half-open breaker with a free slot is due and one without is not`() {
    var record = BreakerRecord()
    record.state = .halfOpen
    #expect(Samples.table(of: record).contains("  due  "))
    #expect(Samples.page(of: record).hasPrefix("x: half_open, the next call is its probe\n"))
    let now = Samples.now.boot
    record.leases = [ProbeLease(id: 1, owner: nil, deadline: now.advanced(by: 5_000_000_000))]
    #expect(Samples.table(of: record).contains("  5s  "))
    record.leases[0].deadline = now.advanced(by: -1)
    #expect(Samples.page(of: record).contains("no owner, has taken too long"))
  }

  @Test(arguments: [(0.5, "50%"), (1.0 / 3, "33.3%"), (0.9996, "100%"), (0, "0%"), (.nan, "-")])
  func `a rate has one decimal at most`(share: Double, text: String) {
    #expect(RateWords.format(share) == text)
  }

  @Test func `a long change pushes no other line aside`() {
    var entries = Samples.history
    let long = String(repeating: "open-for=1m ", count: 10)
    entries.append(Samples.entry(.policy, from: "", to: long))
    let lines = HistoryLines.render(entries, hasNames: true)
    #expect(lines.dropLast() == HistoryLines.render(Samples.history, hasNames: true)[...])
    #expect(lines.last?.contains("open-for=1m   cbctl (pid 1)") == true)
  }

  @Test func `lines of history are as recorded`() {
    let lines = HistoryLines.render(Samples.history, hasNames: true)
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

  @Test func `a time in the future is just now`() {
    let later = Timestamp(millisecondsSince1970: Self.now.millisecondsSince1970 + 86_400_000)
    #expect(Age.text(of: later, at: Self.now) == "just now")
    #expect(Age.text(of: Self.now, at: later) == "1d ago")
  }
}
