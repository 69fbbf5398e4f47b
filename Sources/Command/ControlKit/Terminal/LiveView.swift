@_spi(Command) import SharedBreaker

/// The live table of breakers on a terminal.
final class LiveView {
  private let context: CommandContext
  private let screen: Screen
  private let patterns: [NamePattern]
  private let news: HistoryNews
  private var snapshots: [BreakerSnapshot] = []
  private var rates = RateBook()
  private var table: [String] = []
  private var summary = ""
  private var trouble: String?
  private var heard: HistoryEntry?
  private var latest: HistoryEntry?
  private var offset = 0
  private let start = ContinuousClock.now

  /// How often the view is updated if nothing wakes it.
  ///
  /// Rates and times change without waking the view, because successes are counted in shared memory.
  private static let period = Duration.seconds(1)

  /// The shortest time between updates, so that a burst of changes is shown at once.
  private static let shortestPeriod = Duration.milliseconds(100)

  init(_ context: CommandContext, _ screen: Screen, _ patterns: [NamePattern], _ news: HistoryNews)
  {
    (self.context, self.screen, self.patterns, self.news) = (context, screen, patterns, news)
  }

  /// Shows the table until the user quits, or a signal or closed output ends it.
  func run() -> Ending {
    let poll = DescriptorPoll(descriptors: [news.descriptor] + screen.descriptors)
    var isNew = true
    var earliest = ContinuousClock.now
    var due = earliest
    while context.isOutputOpen {
      let now = ContinuousClock.now
      if now >= (isNew ? earliest : due) {
        read()
        isNew = false
        // Reading a large store takes at most a tenth of the time.
        let cost = (ContinuousClock.now - now) * 9
        earliest = ContinuousClock.now + max(Self.shortestPeriod, cost)
        due = max(earliest, now + Self.period)
      }
      draw()
      let next = (isNew ? earliest : due) - ContinuousClock.now
      let end = poll.wait(atMost: max(.zero, next))
      isNew = hear() || isNew
      for wish in screen.wishes(end.ready) {
        switch wish {
        case .key(.quit), .hungUp: return .done
        case .end(let signal): return .signal(signal)
        case .redraw: layOut()
        case .key(let key): scroll(key)
        }
      }
    }
    return .done
  }

  /// Takes the news, and returns whether any of it is about a breaker in the view.
  private func hear() -> Bool {
    let entries = news.take().entries.filter { NamePattern.matches($0.name, patterns) }
    heard = entries.last ?? heard
    return !entries.isEmpty
  }

  private func read() {
    do throws(ControlError) {
      snapshots = try context.matching(patterns)
      rates.note(snapshots, at: ContinuousClock.now - start)
      trouble = nil
      // The line about the change appears together with the new state.
      latest = heard
    } catch {
      // The last table stays on the screen, and the next round tries again.
      trouble = error.description
    }
    layOut()
  }

  private func layOut() {
    let table = StatusTable(snapshots: snapshots, now: context.now(), rates: rates)
    let width = screen.size.width
    let text = table.render(width: width, painter: context.painter)
    self.table = text.split(separator: "\n").map { String($0) }
    summary =
      snapshots.isEmpty
      ? "no breaker matches yet"
      : SummaryLine.text(of: snapshots, width: width, painter: context.painter)
    scroll(nil)
  }

  private func scroll(_ key: Key?) {
    offset = WatchLayout.offset(
      offset, after: key, count: snapshots.count,
      room: WatchLayout.room(height: screen.size.height))
  }

  private func draw() {
    let now = context.now()
    let (width, height) = screen.size
    let layout = WatchLayout(
      title: "cbctl watch \(context.store.path)", now: now, trouble: trouble, summary: summary,
      table: table, latest: latest.map { HistoryLines.sentence($0, at: now) }, offset: offset)
    let lines = layout.lines(width: width, height: height, painter: context.painter)
    screen.show(Frame(lines: lines)) {
      context.print($0)
    }
  }
}

/// The layout of a live view: the table between a title and a line of keys.
struct WatchLayout {
  var title: String
  var now: BreakerTimestamp

  /// Why the view may be out of date; nil if it is up to date.
  var trouble: String?

  /// The line that counts the breakers.
  var summary: String

  /// The lines of the table, beginning with its heading.
  var table: [String]

  /// The latest change since the view was opened, if any.
  var latest: String?

  /// How many breakers have scrolled off the top.
  private(set) var offset = 0

  init(
    title: String, now: BreakerTimestamp, trouble: String? = nil, summary: String, table: [String],
    latest: String? = nil, offset: Int = 0
  ) {
    (self.title, self.now, self.trouble, self.summary) = (title, now, trouble, summary)
    (self.table, self.latest, self.offset) = (table, latest, offset)
  }

  /// How many breakers fit on a screen.
  static func room(height: Int) -> Int { max(1, height - (isSmall(height) ? 1 : 7)) }

  /// Whether the screen is so small that it shows the table alone.
  private static func isSmall(_ height: Int) -> Bool { height < 10 }

  /// The lines, at most as many as the screen has.
  func lines(width: Int, height: Int, painter: Painter) -> [String] {
    let head = table.prefix(1)
    let rows = table.dropFirst().dropFirst(offset).prefix(Self.room(height: height))
    if Self.isSmall(height) { return Array((head + rows).prefix(height)) }
    let clock = "\(now.description.prefix(19).dropFirst(11))Z"
    var lines = [
      Self.between(VisibleText.bare(title), clock, width, painter),
      trouble.map { painter.paint(TextWidth.cut(VisibleText.bare($0), to: width), .red) }
        ?? summary,
      "",
    ]
    lines += head + rows
    lines += Array(repeating: "", count: max(0, height - 3 - lines.count))
    lines += ["", painter.paint(TextWidth.cut(VisibleText.bare(latest ?? ""), to: width), .faint)]
    let count = table.count - 1
    let range = rows.count < count ? "\(offset + 1)-\(offset + rows.count) of \(count)" : ""
    let keys = "q quit" + (range.isEmpty ? "" : "  ↑↓ scroll")
    return lines + [Self.between(keys, range, width, painter)]
  }

  /// A line with a text at each end, cut to the width.
  private static func between(
    _ left: String, _ right: String, _ width: Int, _ painter: Painter
  ) -> String {
    let room = max(0, width - TextWidth.of(right) - 2)
    let left = TextWidth.cutInside(left, to: room)
    let gap = String(
      repeating: " ", count: max(0, width - TextWidth.of(left) - TextWidth.of(right)))
    return painter.paint(right.isEmpty ? left : left + gap + right, .faint)
  }
}

extension WatchLayout {
  /// The offset after a key, for a number of breakers and the room for them.
  static func offset(_ offset: Int, after key: Key?, count: Int, room: Int) -> Int {
    let target =
      switch key {
      case .up: offset - 1
      case .down: offset + 1
      case .pageUp: offset - room
      case .pageDown: offset + room
      case .top: 0
      case .bottom: count
      case .quit, .redraw, nil: offset
      }
    return max(0, min(target, count - room))
  }
}

/// How many calls a second succeeded, failed and were rejected.
struct CallRates: Sendable, Hashable {
  var successes: Double
  var failures: Double
  var rejections: Double
}

/// The totals of breakers at several instants, from which rates follow.
struct RateBook {
  /// The time that rates cover; over less time they would jump, over more they would lag behind.
  private static let length = Duration.seconds(5)

  private var samples: [(at: Duration, totals: [[UInt8]: BreakerTotals])] = []

  /// Records the totals at an instant, which must be later than all earlier ones.
  mutating func note(_ snapshots: [BreakerSnapshot], at instant: Duration) {
    let totals = Dictionary(snapshots.map { (Array($0.name.utf8), $0.totals) }) { first, _ in first
    }
    // One sample that is too old is kept, because there may be nothing else to compare with.
    while samples.count > 1, instant - samples[1].at >= Self.length { samples.removeFirst() }
    samples.append((instant, totals))
  }

  /// The rates of a breaker; nil until it has been recorded twice.
  func rates(of name: String) -> CallRates? {
    let name = Array(name.utf8)
    guard let newest = samples.last, let now = newest.totals[name],
      let first = samples.first(where: { $0.totals[name] != nil }), let then = first.totals[name]
    else { return nil }
    let seconds = (newest.at - first.at) / .seconds(1)
    guard seconds > 0 else { return nil }
    // A breaker that was deleted and created again counts from zero.
    func rate(_ count: KeyPath<BreakerTotals, Int64>) -> Double {
      Double(max(0, now[keyPath: count].subtractingReportingOverflow(then[keyPath: count]).0))
        / seconds
    }
    return CallRates(
      successes: rate(\.successes), failures: rate(\.failures), rejections: rate(\.rejections))
  }
}

extension RateWords {
  /// A rate in at most four characters: `0`, `0.4`, `37`, `1.2k`, `3M`.
  static func perSecond(_ rate: Double?) -> String {
    guard let rate, rate.isFinite else { return "-" }
    switch rate {
    case ..<0.05: return rate > 0 ? "<0.1" : "0"
    case ..<9.95: return oneDecimal(rate)
    case ..<999.5: return "\(Int(rate.rounded()))"
    case ..<9_950: return oneDecimal(rate / 1_000) + "k"
    case ..<999_500: return "\(Int((rate / 1_000).rounded()))k"
    default: return "\(Int(min(rate / 1_000_000, 1e9).rounded()))M"
    }
  }

  private static func oneDecimal(_ value: Double) -> String {
    let (whole, tenth) = Int((value * 10).rounded()).quotientAndRemainder(dividingBy: 10)
    return tenth == 0 ? "\(whole)" : "\(whole).\(tenth)"
  }
}
