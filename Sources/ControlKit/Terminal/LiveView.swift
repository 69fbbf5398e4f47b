import SharedBreaker

/// The live table of breakers on a terminal.
final class LiveView {
  private let context: CommandContext
  private let screen: Screen
  private let patterns: [NamePattern]
  private let news: News
  private var snapshots: [BreakerSnapshot] = []
  private var rates = RateBook()
  private var table: [String] = []
  private var summary = ""
  private var trouble: String?
  private var heard: HistoryEntry?
  private var latest: HistoryEntry?
  private var offset = 0
  private let start = ContinuousClock.now

  /// How often the view is updated without a change.
  ///
  /// Rates and times change without a commit, because successes are counted in shared memory.
  /// Changes of breakers need no polling: they wake the view.
  private static let period = Duration.seconds(1)

  /// The shortest time between updates, so that many changes in a row are shown together.
  private static let shortestPeriod = Duration.milliseconds(100)

  init(_ context: CommandContext, _ screen: Screen, _ patterns: [NamePattern], _ news: News) {
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
        // Reading a large store less often limits it to a tenth of the time.
        let cost = (ContinuousClock.now - now) * 9
        earliest = ContinuousClock.now + max(Self.shortestPeriod, cost)
        due = max(earliest, now + Self.period)
      }
      draw()
      let next = (isNew ? earliest : due) - ContinuousClock.now
      let end = poll.wait(atMost: max(.zero, next))
      if end.ready.contains(news.descriptor) { isNew = hear() || isNew }
      for wish in screen.wishes(end.ready) {
        switch wish {
        case .key(.quit), .hungUp: return .done
        case .end(let signal): return .signal(signal)
        case .drawAnew: layOut()
        case .key(let key): scroll(key)
        }
      }
    }
    return .done
  }

  /// Takes the news, and returns whether any is about a breaker that the view shows.
  private func hear() -> Bool {
    let entries = news.take().entries.filter { entry in
      patterns.isEmpty || patterns.contains { $0.matches(entry.name) }
    }
    heard = entries.last ?? heard
    return !entries.isEmpty
  }

  private func read() {
    do throws(ControlError) {
      snapshots = try context.watched(patterns)
      rates.note(snapshots, at: ContinuousClock.now - start)
      trouble = nil
      // The change appears together with the state that it led to.
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
