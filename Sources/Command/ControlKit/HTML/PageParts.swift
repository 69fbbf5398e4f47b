@_spi(Command) import SharedBreaker

/// The frame of all pages: one file, which loads nothing else and runs no script.
struct PageFrame {
  var title: String
  var heading: HTML
  var lead: String
  var note: HTML
  var body: HTML

  var html: HTML {
    """
    <!doctype html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="robots" content="noindex, nofollow">
    <meta name="referrer" content="no-referrer">
    <meta name="generator" content="cbctl \(ControlKit.version)">
    <title>\(title)</title>
    <style>
    \(PageStyle.sheet)
    </style>
    </head>
    <body>
    <header>
    <h1>\(heading)</h1>
    <p class="lead">\(lead)</p>
    <p class="note">\(note)</p>
    </header>
    <main>
    \(body)
    </main>
    </body>
    </html>

    """
  }
}

/// The state of a breaker as one coloured word, with details after it.
struct PageState {
  var snapshot: BreakerSnapshot
  var now: BreakerTimestamp

  var html: HTML {
    let addition = addition.map { " <span class=\"note\">\($0)</span>" as HTML } ?? .nothing
    return "<span class=\"state \(weight)\">\(word)</span>\(addition)"
  }

  private var word: String {
    if isHeld { return RejectionCause.held.rawValue }
    return snapshot.mode == .automatic ? snapshot.state.wireName : snapshot.mode.wireName
  }

  /// Whether calls are rejected only because the resource has asked for it.
  private var isHeld: Bool { snapshot.rejection?.cause == .held }

  /// The class in the style sheet.
  private var weight: HTML {
    if isHeld { return "doubtful" }
    if !snapshot.permits { return "bad" }
    return snapshot.mode == .automatic && snapshot.state == .closed ? "good" : "doubtful"
  }

  private var addition: HTML? {
    if snapshot.mode != .automatic { return "\(modeEnd)\(modeBeginning)" }
    let flapping: HTML? = snapshot.isFlapping ? "\(FlappingWords.mark)" : nil
    guard let wait else { return flapping }
    return flapping.map { "\($0), \(wait)" } ?? wait
  }

  private var wait: HTML? {
    if snapshot.isNextCallProbe { return "the next call is a probe" }
    if isHeld, let hold = snapshot.hold {
      let reason: HTML = hold.reason.map { ": <q>\($0)</q>" } ?? .nothing
      guard hold.endsIn > .zero else { return "until the first call has ended\(reason)" }
      return "until \(PageTime.brief(now.later(by: hold.endsIn), at: now))\(reason)"
    }
    if let ramp = snapshot.ramp {
      return "ramping up until \(PageTime.brief(now.later(by: ramp.endsIn), at: now))"
    }
    return snapshot.retryAfter.map { "retry from \(PageTime.brief(now.later(by: $0), at: now))" }
  }

  private var modeEnd: HTML {
    guard let end = snapshot.modeEndsIn else { return "until somebody removes it" }
    return "until \(PageTime.brief(now.later(by: end), at: now))"
  }

  /// How long ago the mode was set, its author, and its reason.
  private var modeBeginning: HTML {
    let age: HTML = snapshot.modeSetAt.map { ", set \(Age.text(of: $0, at: now))" } ?? ", set"
    let author: HTML = snapshot.modeSetBy.map { " by <bdi>\($0)</bdi>" } ?? .nothing
    guard snapshot.modeSetAt != nil || snapshot.modeSetBy != nil else { return .nothing }
    let reason: HTML = snapshot.modeReason.map { ": <q>\($0)</q>" } ?? .nothing
    return "\(age)\(author)\(reason)"
  }
}

/// A timeline drawn as a strip: the worse the state, the higher and redder the bar, and a comb while
/// the breaker flapped.
struct PageTimeline {
  var timeline: Timeline

  /// The subject of the timeline, for screen readers.
  var subject: String

  /// As many parts as a wide screen can distinguish; a short outage fills its whole part.
  private static let parts = 240
  private static let height = 12

  var html: HTML {
    let parts = timeline.worst(inEachOf: Self.parts)
    let paths = Timeline.Course.allCases.map { Self.path(of: $0, in: parts) }
    return """
      <svg class="strip" viewBox="0 0 \(Self.parts) \(Self.height)" preserveAspectRatio="none" \
      role="img"><title>\(subject): \(words)</title>\(paths)</svg>
      """
  }

  /// The strip in words.
  var words: String {
    let words = Timeline.Course.allCases.reversed().compactMap { course -> String? in
      let extent = timeline.extent(of: course)
      guard extent.spells > 0 else { return nil }
      let time = SpokenDuration.format(.milliseconds(extent.milliseconds))
      let isUsual = course == .passing || course == .unknown
      let periods = CountedNoun.text(extent.spells, "period")
      return "\(course.words) for \(time)" + (isUsual ? "" : " in \(periods)")
    }
    return words.isEmpty ? "unknown" : words.joined(separator: ", ")
  }

  /// The meanings of the colours and heights of a strip.
  static var legend: HTML {
    let items = Timeline.Course.allCases.reversed().map { course -> HTML in
      let path = Self.path(of: course, in: [Timeline.Course](repeating: course, count: 12))
      return """
        <li><svg class="strip" viewBox="0 0 12 \(height)" aria-hidden="true">\(path)</svg> \
        \(course.words)</li>
        """
    }
    return "<ul class=\"legend\" aria-label=\"Legend of the timelines\">\(items)</ul>"
  }

  /// All parts of one course as one shape, which keeps a page of a thousand strips small.
  private static func path(of course: Timeline.Course, in parts: [Timeline.Course]) -> HTML {
    let height = rise(of: course)
    var moves: [HTML] = []
    var start = 0
    while start < parts.count {
      let run = parts[start...].prefix { $0 == parts[start] }.count
      if parts[start] == course {
        // A comb has a tooth in every other part.
        let (step, width) = course == .flapping ? (2, 1) : (run, run)
        for tooth in stride(from: start, to: start + run, by: step) {
          moves.append("M\(tooth) \(Self.height - height)h\(width)v\(height)h-\(width)z")
        }
      }
      start += run
    }
    return moves.isEmpty ? .nothing : "<path class=\"\(name(of: course))\" d=\"\(moves)\"/>"
  }

  private static func rise(of course: Timeline.Course) -> Int {
    switch course {
    case .unknown: 1
    case .passing: 4
    case .due: 6
    case .probing: 8
    case .held: 9
    case .open: 10
    case .rejecting, .flapping: 12
    }
  }

  private static func name(of course: Timeline.Course) -> HTML {
    switch course {
    case .unknown: "unknown"
    case .passing: "good"
    case .due: "due"
    case .probing: "doubtful"
    case .held: "held"
    case .open: "opened"
    case .rejecting: "bad"
    case .flapping: "bad comb"
    }
  }
}

/// A table of history entries: the time, the change, its reason, and its author.
struct PageHistory {
  var now: BreakerTimestamp

  /// The positions of the breakers on the page; nil if all entries are about one breaker.
  var places: [[UInt8]: Int]?

  /// The table of rows, which are given oldest first.
  func table(of rows: [HistoryRow], caption: HTML) -> HTML {
    if rows.isEmpty { return "<p>Nothing has changed yet.</p>" }
    let titles = ["When"] + (places == nil ? [] : ["Breaker"]) + ["What", "Why", "Who"]
    return """
      <table class="history" role="table">
      <caption>\(caption)</caption>
      <thead role="rowgroup"><tr role="row">\(titles.map(PageTable.title))</tr></thead>
      <tbody role="rowgroup">
      \(rows.reversed().map(row))</tbody>
      </table>
      """
  }

  private func row(_ row: HistoryRow) -> HTML {
    let name: HTML =
      places.map {
        "<td role=\"cell\" class=\"name\">\(link(to: row.name, $0))</td>"
      } ?? .nothing
    let kind: HTML = places.map { " class=\"\(PageEvents.classes(of: row, $0))\"" } ?? .nothing
    let (what, why, who): (HTML, HTML, HTML) =
      switch row {
      case .entry(let entry): (self.what(entry), "\(entry.reason ?? "")", self.who(entry))
      case .cycles(let cycles):
        ("\(cycles.words)", "until \(PageTime.brief(cycles.last.at, at: now))", .nothing)
      }
    return """
      <tr role="row"\(kind)><td role="cell">\(PageTime.brief(row.at, at: now))</td>\(name)\
      <td role="cell" class="what">\(what)</td><td role="cell" class="why">\(why)</td>\
      <td role="cell" class="who">\(who)</td></tr>

      """
  }

  private func who(_ entry: HistoryEntry) -> HTML {
    if entry.user != nil || entry.command != nil { return "<bdi>\(entry.author)</bdi>" }
    let host: HTML =
      (entry.giver?.description ?? entry.host).map { " for <bdi>\($0)</bdi>" } ?? .nothing
    return "<bdi>\(entry.program)</bdi> <i>pid \(entry.pid)</i>\(host)"
  }

  /// The name of a breaker, which is a link unless the breaker was deleted.
  private func link(to name: String, _ places: [[UInt8]: Int]) -> HTML {
    let shown = VisibleText.name(name)
    guard let place = places[Array(name.utf8)] else { return "<bdi>\(shown)</bdi>" }
    return "<a href=\"#b\(place + 1)\"><bdi>\(shown)</bdi></a>"
  }

  private func what(_ entry: HistoryEntry) -> HTML {
    let words = entry.change.words(arrow: "→")
    if case .transition = entry.change { return "\(words)" }
    return "\(entry.change.wireKind): \(words)"
  }
}

/// The history of all breakers, which a reader can filter without a script: the style hides the rows that
/// the chosen boxes leave out.
struct PageEvents {
  var history: PageHistory

  /// The rows of all breakers, oldest first.
  var rows: [HistoryRow]

  /// How many entries these rows stand for.
  var all: Int

  /// How many of the newest rows are listed.
  static let most = 400

  /// The subject of a row; rows of other kinds show only with everything.
  private enum Kind: String, CaseIterable {
    case outage, person, mode, policy

    var words: String {
      switch self {
      case .outage: "outages and probes"
      case .person: "done by people"
      case .mode: "modes"
      case .policy: "policies"
      }
    }

    func has(_ row: HistoryRow) -> Bool {
      switch row {
      case .entry(let entry): has(entry)
      case .cycles: self == .outage
      }
    }

    private func has(_ entry: HistoryEntry) -> Bool {
      switch self {
      case .person: return entry.user != nil && entry.command == nil
      case .mode: if case .mode = entry.change { return true }
      case .policy: if case .policy = entry.change { return true }
      case .outage:
        switch entry.change {
        case .transition, .suspicion, .probe, .extended, .recovery, .reset: return true
        default: return false
        }
      }
      return false
    }
  }

  /// The classes by which the style tells what a row is about.
  static func classes(of row: HistoryRow, _ places: [[UInt8]: Int]) -> HTML {
    let kinds = Kind.allCases.filter { $0.has(row) }.map { " k-\($0.rawValue)" as HTML }
    return "n\(places[Array(row.name.utf8)].map { $0 + 1 } ?? 0)\(kinds)"
  }

  private var shown: [HistoryRow] { rows.suffix(Self.most) }

  var html: HTML {
    let shown = shown
    let count = shown.reduce(0) { $0 + $1.count }
    let caption: HTML =
      count == all ? "Newest first" : "The newest \(count) of \(all) entries, newest first"
    return """
      <section id="events" aria-labelledby="latest">
      <h2 id="latest">Latest changes</h2>
      \(shown.isEmpty ? .nothing : filters(of: shown))<div class="scroll" tabindex="0" role="region" aria-labelledby="latest">
      \(history.table(of: shown, caption: caption))
      </div>
      </section>
      """
  }

  /// The boxes, and the rules of the style that they switch on.
  private func filters(of shown: [HistoryRow]) -> HTML {
    let names = names(of: shown)
    let used = Kind.allCases.filter { kind in shown.contains { kind.has($0) } }
    let kinds = used.map { kind -> HTML in
      """
      <label><input type="radio" name="kind" id="f-\(kind.rawValue)" autocomplete="off"> \(kind.words)</label>

      """
    }
    let options = names.map { "<option value=\"n\($0.place)\">\($0.name)</option>" as HTML }
    let rules =
      used.map { kind -> HTML in
        """
        #events:has(#f-\(kind.rawValue):checked) tbody tr:not(.k-\(kind.rawValue)) { display: none; }

        """
      }
      + names.map { name -> HTML in
        """
        #events:has([value=n\(name.place)]:checked) tbody tr:not(.n\(name.place)) { display: none; }

        """
      }
    return """
      <style>
      \(rules)</style>
      <div class="filters">
      <fieldset><legend>Show</legend>
      <label><input type="radio" name="kind" autocomplete="off" checked> everything</label>
      \(kinds)</fieldset>
      <label class="of">of <select autocomplete="off"><option value="all" selected>every breaker</option>\(options)</select></label>
      </div>

      """
  }

  /// The breakers that the rows are about, by name; those that were deleted have no place.
  private func names(of shown: [HistoryRow]) -> [(name: String, place: Int)] {
    let places = history.places ?? [:]
    let known = Set(shown.map { Array($0.name.utf8) })
    return known.compactMap { bytes in
      places[bytes].map { (VisibleText.name(String(decoding: bytes, as: UTF8.self)), $0 + 1) }
    }.sorted { $0.name < $1.name }
  }
}

/// Parts that the tables of a page have in common.
///
/// Rows and cells name their roles, because a browser may no longer treat them as such if the style
/// makes them blocks, as on a narrow screen.
enum PageTable {
  static func title(_ words: String) -> HTML { title("\(words)" as HTML) }

  static func title(_ words: HTML) -> HTML {
    "<th role=\"columnheader\" scope=\"col\">\(words)</th>"
  }

  static func title(_ words: HTML, class name: HTML) -> HTML {
    "<th role=\"columnheader\" scope=\"col\" class=\"\(name)\">\(words)</th>"
  }
}

/// Times on a page, in UTC: exact for programs, shortened for people.
enum PageTime {
  /// The date and the time: `2026-11-21 10:58:48`.
  static func full(_ time: BreakerTimestamp) -> HTML {
    let text = time.description
    return element(time, text.prefix(10) + " " + text.prefix(19).dropFirst(11) + "Z")
  }

  /// The time of day, below a timeline: `10:58`.
  static func short(_ time: BreakerTimestamp) -> HTML {
    "\(String(time.description.prefix(16).dropFirst(11)))"
  }

  /// The time, without the part of the date that is the same as the page's.
  static func brief(_ time: BreakerTimestamp, at now: BreakerTimestamp) -> HTML {
    element(time, Age.clock(of: time, at: now))
  }

  private static func element(_ time: BreakerTimestamp, _ words: String) -> HTML {
    "<time datetime=\"\(time.description)\">\(words)</time>"
  }
}
