import SharedBreaker

/// A timeline drawn in characters, one for each part of it, with the times below.
enum TimelineLines {
  /// Lengths of a part that people can reckon with, in minutes; all divide a day.
  private static let minutes = [10, 15, 20, 24, 30, 40, 60]

  private static let labelGap = 2

  /// The lines, none of them wider than `width`.
  static func render(_ timeline: Timeline, width: Int, painter: Painter) -> [String] {
    guard let start = timeline.stretches.first?.start, let end = timeline.stretches.last?.end
    else { return .init() }
    let whole = Int((end.millisecondsSince1970 - start.millisecondsSince1970) / 60_000)
    let length = minutes.first { whole / $0 <= width } ?? max(1, whole / max(1, width))
    let parts = timeline.worst(inEachOf: whole / length)
    let legend = Timeline.Course.allCases.reversed().filter { parts.contains($0) }.map {
      painter.paint(character(of: $0), color(of: $0)) + " " + words(of: $0)
    }
    return [
      "each \(length) minutes: " + legend.joined(separator: ", "),
      drawn(parts, painter),
      painter.paint(axis(parts.count, length, at: end), .faint),
      sum(of: timeline),
    ]
  }

  /// Parts in a row that look alike are painted in one go.
  private static func drawn(_ parts: [Timeline.Course], _ painter: Painter) -> String {
    var line = ""
    var rest = parts[...]
    while let course = rest.first {
      let run = rest.prefix { $0 == course }
      rest = rest.dropFirst(run.count)
      line += painter.paint(
        String(repeating: character(of: course), count: run.count), color(of: course))
    }
    return line
  }

  /// The time of day, in UTC, at a quarter of the line each, and at its end.
  private static func axis(_ count: Int, _ length: Int, at end: Timestamp) -> String {
    var line = ""
    for quarter in 0..<4 {
      let part = count * quarter / 4
      let time = end.earlier(by: .seconds((count - part) * length * 60))
      let label = "|" + time.description.prefix(16).dropFirst(11)
      guard line.count + (line.isEmpty ? 0 : labelGap) <= part else { continue }
      line += String(repeating: " ", count: part - line.count) + label
    }
    let last = end.description.prefix(16).dropFirst(11) + "Z|"
    guard line.count + labelGap + last.count <= count else { return line }
    return line + String(repeating: " ", count: count - line.count - last.count) + last
  }

  private static func sum(of timeline: Timeline) -> String {
    let rejecting = timeline.extent(of: .rejecting)
    guard rejecting.spells > 0 else { return "never rejected" }
    let time = SpokenDuration.format(.milliseconds(rejecting.milliseconds))
    return "rejected for \(time)" + (rejecting.spells > 1 ? " in \(rejecting.spells) spells" : "")
  }

  private static func character(of course: Timeline.Course) -> String {
    switch course {
    case .unknown: "."
    case .passing: "▁"
    case .probing: "▄"
    case .rejecting: "█"
    }
  }

  private static func color(of course: Timeline.Course) -> Color {
    switch course {
    case .unknown: .faint
    case .passing: .green
    case .probing: .yellow
    case .rejecting: .red
    }
  }

  private static func words(of course: Timeline.Course) -> String {
    switch course {
    case .unknown: "not known"
    case .passing: "let through"
    case .probing: "probed"
    case .rejecting: "rejected"
    }
  }
}
