import SharedBreaker

/// The state of a breaker as one coloured word, with details after it.
struct PageState {
  var snapshot: BreakerSnapshot
  var now: BreakerTimestamp

  var html: HTML {
    let addition = addition.map { " <span class=\"note\">\($0)</span>" as HTML } ?? .nothing
    return "<span class=\"state \(weight)\">\(word)</span>\(addition)"
  }

  private var word: String {
    snapshot.mode == .automatic ? snapshot.state.wireName : snapshot.mode.wireName
  }

  /// The class in the style sheet.
  private var weight: HTML {
    if !snapshot.permits { return "bad" }
    return snapshot.mode == .automatic && snapshot.state == .closed ? "good" : "doubtful"
  }

  private var addition: HTML? {
    if snapshot.mode != .automatic {
      let end = snapshot.modeEndsIn.map {
        "until \(PageTime.brief(now.later(by: $0), at: now))" as HTML
      }
      return end ?? "until somebody removes it"
    }
    if snapshot.isNextCallProbe { return "the next call is a probe" }
    return snapshot.retryAfter.map { "retry from \(PageTime.brief(now.later(by: $0), at: now))" }
  }
}

/// A timeline drawn as a strip: the worse the state, the higher and redder the bar.
struct PageTimeline {
  var timeline: Timeline

  /// What the timeline shows, for screen readers.
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

  /// What the colours and heights of a strip mean.
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
        moves.append("M\(start) \(Self.height - height)h\(run)v\(height)h-\(run)z")
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
    case .open: 10
    case .rejecting: 12
    }
  }

  private static func name(of course: Timeline.Course) -> HTML {
    switch course {
    case .unknown: "unknown"
    case .passing: "good"
    case .due, .probing: "doubtful"
    case .open, .rejecting: "bad"
    }
  }
}

/// A table of history entries: when, what, why, and who did it.
struct PageHistory {
  var now: BreakerTimestamp

  /// The positions of the breakers on the page; nil if all entries are about one breaker.
  var places: [[UInt8]: Int]?

  /// The table of entries, which are given oldest first.
  func table(of entries: [HistoryEntry], caption: String) -> HTML {
    if entries.isEmpty { return "<p>Nothing has changed yet.</p>" }
    let titles = ["When"] + (places == nil ? [] : ["Breaker"]) + ["What", "Why", "Who"]
    return """
      <table class="history" role="table">
      <caption>\(caption)</caption>
      <thead role="rowgroup"><tr role="row">\(titles.map(PageTable.title))</tr></thead>
      <tbody role="rowgroup">
      \(entries.reversed().map(row))</tbody>
      </table>
      """
  }

  private func row(_ entry: HistoryEntry) -> HTML {
    let name: HTML = places.map { "<td role=\"cell\">\(link(to: entry.name, $0))</td>" } ?? .nothing
    return """
      <tr role="row"><td role="cell">\(PageTime.brief(entry.at, at: now))</td>\(name)\
      <td role="cell" class="what">\(what(entry))</td><td role="cell" class="why">\(entry.reason ?? "")</td>\
      <td role="cell" class="who">\(who(entry))</td></tr>

      """
  }

  private func who(_ entry: HistoryEntry) -> HTML {
    if entry.user != nil || entry.command != nil { return "<bdi>\(entry.author)</bdi>" }
    let host: HTML = entry.host.map { " for <bdi>\($0)</bdi>" } ?? .nothing
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

/// What the tables of a page have in common.
///
/// Rows and cells name their roles, because a browser may no longer treat them as such if the style
/// makes them blocks, as on a narrow screen.
enum PageTable {
  static func title(_ words: String) -> HTML {
    "<th role=\"columnheader\" scope=\"col\">\(words)</th>"
  }
}

/// Times on a page, in UTC: exact for programs, shortened for people.
enum PageTime {
  /// The date and the time: `2026-11-21 10:58:48`.
  static func full(_ time: BreakerTimestamp) -> HTML {
    let text = time.description
    return element(time, text.prefix(10) + " " + text.prefix(19).dropFirst(11) + "Z")
  }

  /// The time, without the part of the date that is the same as the page's.
  static func brief(_ time: BreakerTimestamp, at now: BreakerTimestamp) -> HTML {
    element(time, Age.clock(of: time, at: now))
  }

  private static func element(_ time: BreakerTimestamp, _ words: String) -> HTML {
    "<time datetime=\"\(time.description)\">\(words)</time>"
  }
}
