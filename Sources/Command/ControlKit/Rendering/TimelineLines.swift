import SharedBreaker

/// A timeline drawn with one character for each part, and the times below.
enum TimelineLines {
  /// Possible lengths of a part in minutes, each of which divides a day.
  private static let minutes = [10, 15, 20, 24, 30, 40, 60]

  private static let labelGap = 2

  /// The lines, none wider than `width`.
  static func render(_ timeline: Timeline, width: Int, painter: Painter) -> [String] {
    guard let start = timeline.stretches.first?.start, let end = timeline.stretches.last?.end
    else { return .init() }
    let whole = Int((end.millisecondsSince1970 - start.millisecondsSince1970) / 60_000)
    let length = minutes.first { whole / $0 <= width } ?? max(1, whole / max(1, width))
    let parts = timeline.worst(inEachOf: whole / length)
    return legend(of: parts, "each \(length) minutes:", width: width, painter) + [
      drawn(parts, painter),
      painter.paint(axis(parts.count, length, at: end), .faint),
    ] + TextWrap.lines(sum(of: timeline), width: width)
  }

  /// The meaning of the characters that are drawn.
  private static func legend(
    of parts: [Timeline.Course], _ beginning: String, width: Int, _ painter: Painter
  ) -> [String] {
    let drawn = Timeline.Course.allCases.reversed().filter { parts.contains($0) }
    var lines = [beginning]
    var length = beginning.count
    for course in drawn {
      let words = course.words + (course == drawn.last ? "" : ",")
      // The character and two spaces come before the words.
      length += words.count + 3
      if length > width {
        lines.append("")
        length = words.count + 3
      }
      lines[lines.count - 1] +=
        " \(painter.paint(character(of: course), color(of: course))) \(words)"
    }
    return lines
  }

  /// The drawn parts; adjacent parts that look alike are painted together.
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

  /// The time of day in UTC, at each quarter of the line and at its end.
  private static func axis(_ count: Int, _ length: Int, at end: BreakerTimestamp) -> String {
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

  /// How long the breaker rejected calls, was open, held them and was due, as far as the history shows.
  private static func sum(of timeline: Timeline) -> String {
    let told = [Timeline.Course.flapping, .rejecting, .open, .held, .due].compactMap {
      course -> String? in
      let extent = timeline.extent(of: course)
      guard extent.spells > 0 else { return nil }
      let time = SpokenDuration.format(.milliseconds(extent.milliseconds))
      let periods = extent.spells > 1 ? " in \(extent.spells) periods" : ""
      return "\(course.words) for \(time)\(periods)"
    }
    let isCalm = timeline.stretches.allSatisfy { $0.course < .held }
    return ((isCalm ? ["never rejected"] : []) + told).joined(separator: ", ")
  }

  private static func character(of course: Timeline.Course) -> String {
    switch course {
    case .unknown: "."
    case .passing: "▁"
    case .due: "▂"
    case .probing: "▄"
    case .held: "▅"
    case .open: "▆"
    case .rejecting: "█"
    case .flapping: "▞"
    }
  }

  private static func color(of course: Timeline.Course) -> Color {
    switch course {
    case .unknown: .faint
    case .passing: .green
    case .due, .probing, .held: .yellow
    case .open, .rejecting, .flapping: .red
    }
  }
}
