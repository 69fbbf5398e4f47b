import ProgramKit
import SharedBreaker

/// Breakers and their history as one HTML file, which loads nothing else and runs no script.
struct BreakersPage {
  /// The name of the host.
  var host: String

  /// The path of the store.
  var store: String

  /// When the page was made, which shows times rather than ages, because it does not update itself.
  var now: BreakerTimestamp

  /// How far back the timelines of the overview go.
  var span: Duration

  /// How many history entries each breaker lists.
  var limit: Int

  /// The fleet that the store belongs to; nil if it belongs to none.
  var fleet: PageFleet?

  /// The breakers, the worst first.
  var breakers: [PageBreaker]

  /// The latest entries of all breakers, oldest first.
  var latest: [HistoryEntry]
}

extension BreakersPage {
  var html: String {
    PageFrame(
      title: "\(title) · \(host)", heading: "Breakers of <bdi>\(host)</bdi>",
      lead: SummaryLine.text(of: breakers.map(\.snapshot), painter: .plain),
      note: "As of \(PageTime.full(now)). Times are in UTC. Store: <code>\(store)</code>",
      body: body
    ).html.text
  }

  /// The title, which shows in a browser's tab how many breakers reject calls.
  private var title: String {
    let count = breakers.count { !$0.snapshot.permits }
    let all = CountedNoun.text(breakers.count, "breaker")
    return count == 0 ? all : "\(count) of \(all) rejecting"
  }

  private var body: HTML {
    let fleet = fleet?.html ?? .nothing
    if breakers.isEmpty { return "<p>There are no breakers to show.</p>\(fleet)" }
    return """
      \(PageOverview(page: self).html)\(fleet)
      \(PageEvents(history: PageHistory(now: now, places: places), rows: HistoryRow.folded(latest), all: latest.count).html)
      <section aria-labelledby="each">
      <h2 id="each">Every breaker in detail</h2>
      \(breakers.enumerated().map { PageDetails(breaker: $1, place: $0, page: self).html })
      </section>
      """
  }

  /// The position of each breaker on the page, by name.
  private var places: [[UInt8]: Int] {
    Dictionary(breakers.enumerated().map { (Array($1.snapshot.name.utf8), $0) }) { first, _ in first
    }
  }
}

/// One breaker of a page.
struct PageBreaker {
  var snapshot: BreakerSnapshot

  /// The breaker's history as far as it is kept, oldest first.
  var history: [HistoryEntry]
}

extension Painter {
  /// A painter without colours, because the page has its own.
  static let plain = Painter(isOn: false)
}

/// One line for each breaker; those that need attention have a list of their own.
private struct PageOverview {
  var page: BreakersPage

  var html: HTML {
    let breakers = Array(page.breakers.enumerated())
    let worrying = breakers.filter { Self.isWorrying($1.snapshot) }
    let others = breakers.filter { !Self.isWorrying($1.snapshot) }
    let flapping = others.filter(\.element.snapshot.isFlapping)
    let usual = others.filter { !$1.snapshot.isFlapping }
    let apart: HTML =
      flapping.isEmpty
      ? .nothing : "\(section("flapping", Self.flappingTitle, flapping, nobody: ""))\n"
    return """
      \(PageTimeline.legend)
      \(section("worrying", "Needs attention", worrying, nobody: "Nothing: every breaker is closed and automatic."))
      \(apart)\(section("usual", "Healthy", usual, nobody: "None."))
      """
  }

  private static func isWorrying(_ snapshot: BreakerSnapshot) -> Bool {
    !snapshot.permits || snapshot.state != .closed || snapshot.mode != .automatic
  }

  /// The title, which explains the word.
  private static let flappingTitle = "Flapping: closed now, with \(FlappingWords.rule)"

  private func section(
    _ id: HTML, _ title: String, _ breakers: [(offset: Int, element: PageBreaker)], nobody: String
  ) -> HTML {
    let content: HTML = breakers.isEmpty ? "<p>\(nobody)</p>" : table(of: breakers)
    return """
      <section aria-labelledby="\(id)">
      <h2 id="\(id)">\(title) (\(breakers.count))</h2>
      \(content)
      </section>
      """
  }

  private func table(of breakers: [(offset: Int, element: PageBreaker)]) -> HTML {
    let columns = columns
    return """
      <table class="overview" role="table">
      <caption>States from \(PageTime.full(start)) to \(PageTime.full(page.now))</caption>
      <thead role="rowgroup"><tr role="row">\(PageTable.title("Breaker", class: "c-breaker"))\
      \(columns.map { PageTable.title($0.title, class: "c-\($0.name)") })</tr></thead>
      <tbody role="rowgroup">
      \(breakers.map { row($1, at: $0, columns) })</tbody>
      </table>
      """
  }

  private func row(_ breaker: PageBreaker, at place: Int, _ columns: [Column]) -> HTML {
    """
    <tr role="row"><th role="rowheader" scope="row" class="c-breaker">\
    <a href="#b\(place + 1)"><bdi>\(VisibleText.name(breaker.snapshot.name))</bdi></a></th>\
    \(columns.map { cell(breaker, $0) })</tr>

    """
  }

  private func cell(_ breaker: PageBreaker, _ column: Column) -> HTML {
    let content = column.content(breaker)
    let absence: HTML = content == nil ? " none" : .nothing
    let label: HTML = column.isLabelled ? " data-label=\"\(column.title)\"" : .nothing
    return """
      <td role="cell" class="c-\(column.name)\(absence)"\(label)>\(content ?? "-")</td>
      """
  }

  /// A column beside the names: its heads and its cells have its name as their class, which the style
  /// goes by, because some pages have more columns than others.
  private struct Column {
    var name: HTML
    var title: HTML

    /// Whether a narrow screen, which shows no heads, writes the title before each cell.
    var isLabelled = true

    /// The content of a cell; nil if the column does not apply to its breaker.
    var content: (PageBreaker) -> HTML?
  }

  private var columns: [Column] {
    let first = [
      Column(name: "state", title: "State", isLabelled: false) {
        PageState(snapshot: $0.snapshot, now: page.now).html
      },
      Column(name: "course", title: axis, isLabelled: false) { course(of: $0) },
    ]
    let limits = [
      Column(name: "busy", title: "Busy") { LimitWords.busy($0.snapshot).map { "\($0)" } },
      Column(name: "queue", title: "Queue") { LimitWords.queue($0.snapshot).map { "\($0)" } },
    ]
    let rates = [
      Column(name: "begun", title: "Begun") { LimitWords.begun($0.snapshot).map { "\($0)" } }
    ]
    let budgets = [
      Column(name: "retries", title: "Retries") { LimitWords.retries($0.snapshot).map { "\($0)" } }
    ]
    let last = [
      Column(name: "trips", title: "Trips") { "\($0.snapshot.trips)" },
      Column(name: "failure", title: "Last failure") {
        $0.snapshot.lastFailureAt.map { PageTime.brief($0, at: page.now) } ?? "never"
      },
    ]
    return first + (hasLimits ? limits : []) + (hasRates ? rates : []) + (hasBudgets ? budgets : [])
      + last
  }

  private func course(of breaker: PageBreaker) -> HTML {
    let timeline = Timeline(
      of: breaker.snapshot, history: breaker.history, from: start, to: page.now)
    return "\(PageTimeline(timeline: timeline, subject: spanWords).html)\(axisBelow)"
  }

  /// Whether calls of a breaker of the page take room, so that the tables show how much is under way.
  private var hasLimits: Bool {
    page.breakers.contains { LimitWords.isShown($0.snapshot) }
  }

  /// Whether a breaker of the page limits how many calls begin in an interval.
  private var hasRates: Bool { page.breakers.contains { $0.snapshot.policy.rate != nil } }
  private var hasBudgets: Bool { page.breakers.contains { $0.snapshot.policy.retryBudget != nil } }

  /// The times below one strip, on a narrow screen, where the table has no head.
  private var axisBelow: HTML {
    """
    <span class="axis below" aria-hidden="true"><span>\(PageTime.short(start))</span>\
    <span>\(PageTime.short(page.now))</span></span>
    """
  }

  /// The title of the strips: what they show, and the time of day below each quarter of them.
  private var axis: HTML {
    let quarters = (0...4).map { quarter -> HTML in
      let time = page.now.earlier(by: page.span * (4 - quarter) / 4)
      let kind: HTML = quarter % 4 == 0 ? .nothing : " class=\"between\""
      return "<span\(kind)>\(PageTime.short(time))</span>"
    }
    return "\(spanWords)<span class=\"axis\" aria-hidden=\"true\">\(quarters)</span>"
  }

  private var start: BreakerTimestamp { page.now.earlier(by: page.span) }

  private var spanWords: String { "Last \(SpokenDuration.format(page.span))" }
}

/// Everything about one breaker, collapsed until the reader opens it.
private struct PageDetails {
  var breaker: PageBreaker
  var place: Int
  var page: BreakersPage

  private var snapshot: BreakerSnapshot { breaker.snapshot }

  /// The section, with the link target inside it, because a browser then opens it for a link.
  var html: HTML {
    """
    <details>
    <summary><bdi class="name">\(VisibleText.name(snapshot.name))</bdi> \
    \(PageState(snapshot: snapshot, now: page.now).html)</summary>
    <div class="inside" id="b\(place + 1)">
    \(strip)
    <dl>
    \(facts.map { "<dt>\($0.label)</dt><dd>\($0.value)</dd>\n" as HTML })</dl>
    \(PageHistory(now: page.now).table(of: shown, caption: "\(caption)"))
    </div>
    </details>

    """
  }

  /// The timeline, from the earliest known moment.
  private var strip: HTML {
    // A damaged file can hold any time.
    let earliest = page.now.earlier(by: .seconds(10 * 365 * 86_400))
    let made = max(snapshot.createdAt ?? earliest, earliest)
    let all = Timeline(of: snapshot, history: breaker.history, from: made, to: page.now)
    guard let known = all.stretches.first(where: { $0.course != .unknown }) else { return .nothing }
    let timeline = Timeline(
      of: snapshot, history: breaker.history, from: known.start, to: page.now)
    return """
      <figure>
      \(PageTimeline(timeline: timeline, subject: "Whole history").html)
      <figcaption><span>\(PageTime.full(known.start))</span> \
      <span>\(PageTime.full(page.now))</span></figcaption>
      </figure>
      """
  }

  private var facts: [(label: String, value: HTML)] {
    let words = BreakerDetails(
      snapshot: snapshot, declarations: [], history: breaker.history, now: page.now)
    var facts: [(label: String, value: HTML)] = []
    func add(_ label: String, _ value: HTML?) {
      if let value { facts.append((label, value)) }
    }
    if snapshot.isFlapping { add("flapping", "\(FlappingWords.rule)") }
    if snapshot.mode != .automatic {
      add("state", "\(snapshot.state.wireName)")
      add("mode set by", snapshot.modeSetBy.map { "<bdi>\($0)</bdi>" })
      add(
        "mode since",
        snapshot.modeSetAt.map { "\(PageTime.full($0)) (\(Age.text(of: $0, at: page.now)))" })
      let end = snapshot.modeEndsIn.map { PageTime.full(page.now.later(by: $0)) }
      add("mode until", end ?? "somebody removes it")
      add("reason", snapshot.modeReason.map { "<q>\($0)</q>" })
    }
    for (label, text) in HoldWords.facts(snapshot, at: page.now) { add(label, "\(text)") }
    add("tripped because", snapshot.openReason.map { "<q>\($0)</q>" })
    add("last error", snapshot.lastError.map { "<q>\($0)</q>" })
    add("last failure", snapshot.lastFailureAt.map { PageTime.full($0) })
    add("failures", "\(snapshot.consecutiveFailures) consecutive")
    if snapshot.policy.failureRate != nil || snapshot.policy.slowRate != nil {
      add("window", "\(words.window)")
    }
    let limit = LimitDetails(snapshot: snapshot)
    for (label, text) in limit.facts { add(label, "\(text)") }
    add("calls under way", Self.list(limit.calls))
    add("waiting for \(limit.obstacle)", Self.list(limit.waiters))
    add("totals", "\(words.totals)")
    add("trips", "\(snapshot.trips)")
    add("opened", snapshot.openedAt.map { PageTime.full($0) })
    add("created", snapshot.createdAt.map { PageTime.full($0) })
    add("policy", policy)
    return facts
  }

  private static func list(_ lines: [String]) -> HTML? {
    lines.isEmpty ? nil : "<ul class=\"words\">\(lines.map { "<li>\($0)</li>" as HTML })</ul>"
  }

  /// The words of the policy; those of an operator are marked, because they are easily forgotten.
  private var policy: HTML {
    let words = snapshot.policyWords.map { key, text -> HTML in
      let source = snapshot.source(of: key)
      let word: HTML = "\(key.rawValue)=\(text)"
      guard source == .operator else { return "<li><code>\(word)</code></li>" }
      return "<li><code>\(word)</code> <span class=\"note\">\(source.rawValue)</span></li>"
    }
    return "<ul class=\"words\">\(words)</ul>"
  }

  private var shown: [HistoryRow] { HistoryRow.folded(breaker.history).suffix(page.limit) }

  private var caption: String {
    let (all, count) = (breaker.history.count, shown.reduce(0) { $0 + $1.count })
    if count == all { return "History, newest first" }
    return "History, the newest \(count) of \(all) entries"
  }
}

/// The fleet that a store belongs to: where breakers are not closed, and which hosts are silent.
struct PageFleet {
  /// The name of the fleet.
  var name: String

  /// The breakers that are not closed and automatic everywhere; nil if the relay does not answer.
  var overview: FleetOverview?

  /// The state of this host's relay, in words.
  var relay: String

  var html: HTML {
    """

    <section aria-labelledby="fleet">
    <h2 id="fleet">Fleet <bdi>\(VisibleText.name(name))</bdi></h2>
    \(overview.map(breakers) ?? .nothing)<p class="note">Relay of this host: \(relay)</p>
    </section>
    """
  }

  private func breakers(_ overview: FleetOverview) -> HTML {
    let count = CountedNoun.text(overview.hosts.count, "host")
    guard !overview.rows.isEmpty else {
      return "<p>Every breaker is closed and automatic on \(count).</p>\n\(silent(overview))"
    }
    let rows = overview.rows.map { row($0, on: overview.hosts) }
    return """
      <table class="fleet" role="table">
      <caption>Breakers that are not closed and automatic on all of \(count)</caption>
      <thead role="rowgroup"><tr role="row">\(["Breaker", "Hosts"].map(PageTable.title))</tr></thead>
      <tbody role="rowgroup">
      \(rows)</tbody>
      </table>
      \(silent(overview))
      """
  }

  private func row(_ row: FleetOverview.Row, on hosts: [RelayStatus.Host]) -> HTML {
    let phrases: [HTML] = row.phrases(on: hosts).map { "<li>\($0)</li>" }
    return """
      <tr role="row"><th role="rowheader" scope="row"><bdi>\(VisibleText.name(row.name))</bdi></th>\
      <td role="cell"><ul class="words">\(phrases)</ul></td></tr>

      """
  }

  private func silent(_ overview: FleetOverview) -> HTML {
    guard !overview.silent.isEmpty else { return .nothing }
    let hosts = overview.silent.map { host in
      VisibleText.name(host.name)
        + (host.silence.map { " for \(SpokenDuration.format($0))" } ?? "")
    }
    return """
      <p><span class="state doubtful">silent</span> \(hosts.joined(separator: ", "))</p>

      """
  }
}
