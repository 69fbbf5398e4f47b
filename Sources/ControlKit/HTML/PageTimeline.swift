import SharedBreaker

/// A timeline drawn as a strip: the worse the state, the higher and redder the bar.
struct PageTimeline {
  var timeline: Timeline

  /// What the timeline is about, for readers who do not see it.
  var subject: String

  /// As many parts as a wide screen can show separately; a short outage fills its whole part.
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
      return "\(Self.words(for: course)) for \(time)" + (isUsual ? "" : " in \(periods)")
    }
    return words.isEmpty ? "unknown" : words.joined(separator: ", ")
  }

  /// What the colours and heights of a strip mean.
  static var legend: HTML {
    let items = Timeline.Course.allCases.reversed().map { course -> HTML in
      let path = Self.path(of: course, in: [Timeline.Course](repeating: course, count: 12))
      return """
        <li><svg class="strip" viewBox="0 0 12 \(height)" aria-hidden="true">\(path)</svg> \
        \(words(for: course))</li>
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

  private static func words(for course: Timeline.Course) -> String {
    switch course {
    case .unknown: "unknown"
    case .passing: "let calls through"
    case .due: "due"
    case .probing: "probed"
    case .open: "open"
    case .rejecting: "rejected"
    }
  }
}
