import BreakerCore
import BreakerDocuments
import SharedBreaker
import Testing

@testable import ControlKit

/// The output of `watch` without a terminal.
struct WatchTests {
  private static let plain = Painter(isOn: false)

  @Test(
    arguments: [
      ("q", [.quit]), ("jk", [.down, .up]), ("x", []), ("\u{1b}[A\u{1b}[B", [.up, .down]),
      ("\u{1b}OH \u{1b}[5~", [.top, .pageDown, .pageUp]), ("\u{1b}[1;5Cg", [.top]),
      ("\u{1b}q", [.quit]), ("\u{c}G", [.redraw, .bottom]), ("é", []),
    ] as [(String, [Key])])
  func `typed bytes become keys however they are split`(typed: String, expected: [Key]) {
    let bytes = Array(typed.utf8)
    for size in 1...4 {
      var keys = Keys()
      let got = stride(from: 0, to: bytes.count, by: size).flatMap {
        keys.read(Array(bytes[$0..<min($0 + size, bytes.count)]))
      }
      #expect(got == expected)
    }
  }

  @Test func `a frame writes only the lines that differ`() {
    let first = Frame(lines: ["a", "b", "c"])
    #expect(first.update(from: first).isEmpty)
    #expect(
      Frame(lines: ["a", "x", "c"]).update(from: first)
        == "\u{1b}[?2026h\u{1b}[2;1H\u{1b}[Kx\u{1b}[?2026l")
    #expect(
      Frame(lines: ["a"]).update(from: first) == "\u{1b}[?2026h\u{1b}[2;1H\u{1b}[J\u{1b}[?2026l")
    // A position below the screen means its last line, which must not be erased.
    #expect(
      first.update(from: nil) == "\u{1b}[?2026h\u{1b}[1;1H\u{1b}[J\u{1b}[1;1H\u{1b}[Ka"
        + "\u{1b}[2;1H\u{1b}[Kb\u{1b}[3;1H\u{1b}[Kc\u{1b}[?2026l")
  }

  @Test func `scrolling stays within the list of breakers`() {
    func offset(_ start: Int, _ key: Key?) -> Int {
      WatchLayout.offset(start, after: key, count: 50, room: 20)
    }
    #expect([Key.up, .down, .pageUp, .pageDown].map { offset(0, $0) } == [0, 1, 0, 20])
    #expect([Key.down, .pageDown, .bottom, .top].map { offset(29, $0) } == [30, 30, 30, 0])
    #expect(WatchLayout.offset(7, after: nil, count: 3, room: 20) == 0)
  }

  @Test func `the rates of a breaker are those of the last seconds`() throws {
    func breaker(_ successes: Int64, _ rejections: Int64) -> BreakerSnapshot {
      Samples.breaker("x", madeSecondsAgo: 9) {
        $0.totals.successes = successes
        $0.totals.rejections = rejections
      }
    }
    var book = RateBook()
    #expect(book.rates(of: "x") == nil)
    book.note([breaker(100, 0)], at: .seconds(1))
    #expect(book.rates(of: "x") == nil)
    book.note([breaker(150, 5)], at: .milliseconds(1_500))
    #expect(book.rates(of: "x") == CallRates(successes: 100, failures: 0, rejections: 10))
    for second in 2..<60 { book.note([breaker(150, 5)], at: .seconds(second)) }
    #expect(book.rates(of: "x") == CallRates(successes: 0, failures: 0, rejections: 0))
    // A breaker that was created again counts from zero.
    book.note([breaker(0, 0)], at: .seconds(60))
    #expect(book.rates(of: "x")?.successes == 0)
    #expect(book.rates(of: "y") == nil)
  }

  @Test(
    arguments: [
      (nil, "-"), (0, "0"), (0.01, "<0.1"), (0.4, "0.4"), (2, "2"), (9.94, "9.9"), (9.96, "10"),
      (999.4, "999"), (999.6, "1k"), (1_234, "1.2k"), (12_345, "12k"), (3_000_000, "3M"),
      (.infinity, "-"),
    ] as [(Double?, String)])
  func `a rate has four characters at most`(rate: Double?, text: String) {
    #expect(RateWords.perSecond(rate) == text)
  }

  private static func lines(width: Int, height: Int, offset: Int = 0, trouble: String? = nil)
    -> [String]
  {
    var book = RateBook()
    book.note([], at: .seconds(1))
    book.note(Samples.all, at: .seconds(2))
    book.note(Samples.all, at: .seconds(3))
    let table = StatusTable(snapshots: Samples.all, now: Samples.time, rates: book)
    let layout = WatchLayout(
      title: "cbctl watch /var/lib/shared-breaker/breakers.db", now: Samples.time, trouble: trouble,
      summary: SummaryLine.text(of: Samples.all, width: width, painter: plain),
      table: table.render(width: width, painter: plain).split(separator: "\n").map { String($0) },
      latest: HistoryLines.sentence(Samples.history[0], at: Samples.time), offset: offset)
    return layout.lines(width: width, height: height, painter: plain)
  }

  @Test func `the live view matches its snapshots`() {
    for (width, height) in [(80, 24), (160, 16), (80, 12)] {
      let lines = Self.lines(width: width, height: height)
      Golden.expect(lines.map { $0 + "\n" }.joined(), "watch-\(width)x\(height).txt")
    }
    #expect(Self.lines(width: 80, height: 24, trouble: "it is gone")[1] == "it is gone")
  }

  @Test(arguments: 1...30)
  func `the live view fits every screen`(height: Int) {
    for width in [36, 47, 60, 80, 200] {
      let lines = Self.lines(width: width, height: height, offset: 3)
      #expect(lines.count <= height)
      for line in lines { #expect(TextWidth.of(line) <= width, "\(line)") }
    }
  }

  @Test func `the lines and documents of watch in a pipe match their snapshots`() {
    let entry = Samples.history[0]
    let texts = [
      ChangeLines.text(Samples.time, Samples.payments, nil),
      ChangeLines.text(entry.at, Samples.payments, entry),
      ChangeLines.text(entry.at, nil, Samples.entry(.deletion, from: "open", to: "deleted")),
    ]
    Golden.expect(texts.map { $0 + "\n" }.joined(), "watch-pipe.txt")
    let documents = [
      BreakerDocument.change(Samples.time, Samples.payments, nil),
      BreakerDocument.change(entry.at, Samples.payments, entry),
      BreakerDocument.change(entry.at, nil, entry),
    ]
    Golden.expect(documents.map { $0.text + "\n" }.joined(), "watch.json")
  }
}

/// The live table on a narrow terminal.
struct NarrowWatchTests {
  /// Breakers with long numbers in every column.
  private static let snapshots = [
    Samples.breaker("payments-of-a-region", madeSecondsAgo: 9_000_000) { record in
      record.state = .open
      record.trips = 98_765
      record.consecutiveFailures = 123_456
      record.changedAtMilliseconds = Samples.now.wallMilliseconds - 7_199_000
      record.lastFailureAtMilliseconds = Samples.now.wallMilliseconds - 7_199_000
      record.openUntil = Samples.now.boot.advanced(by: 86_000_000_000_000)
      record.openNanoseconds = 86_400_000_000_000
      record.lastError = "status 503 after 1234 ms"
      record.totals.failures = 9_876_543
    },
    Samples.breaker("search", madeSecondsAgo: 100_000) { record in
      record.mode.mode = .forcedClosed
      record.mode.setAtMilliseconds = Samples.now.wallMilliseconds - 99_000
      record.consecutiveFailures = 77_777
      record.totals.successes = 12_345
    },
  ]

  private static func rows(width: Int, isLive: Bool) -> [String] {
    var book = RateBook()
    book.note(snapshots.map { _ in Samples.breaker("none", madeSecondsAgo: 1) }, at: .seconds(1))
    book.note([Samples.breaker("search", madeSecondsAgo: 1)], at: .seconds(2))
    book.note(snapshots, at: .seconds(3))
    return StatusTable(snapshots: snapshots, now: Samples.time, rates: isLive ? book : nil)
      .render(width: width, painter: Painter(isOn: false)).split(separator: "\n")
      .map { String($0) }
  }

  @Test(arguments: [true, false])
  func `a narrow table has fewer columns, and only numbers of the wide one`(isLive: Bool) {
    let wide = Self.rows(width: 400, isLive: isLive)
    for width in 1...200 {
      let narrow = Self.rows(width: width, isLive: isLive)
      #expect(narrow.count == wide.count)
      for (row, whole) in zip(narrow, wide) {
        #expect(TextWidth.of(row) <= width || width < 8, "\(width): \(row)")
        let known = Set(whole.split(separator: " "))
        let words = row.split(separator: " ").filter { !$0.contains("…") }
        #expect(known.isSuperset(of: words), "\(width): \(row)")
      }
      if width >= 36 {
        #expect(narrow[1].contains(" open") && narrow[2].contains("forced_closed"), "\(width)")
      }
    }
  }
}
