import Glibc

/// One line of a chart, from left to right.
struct PlotLine {
  var name: String
  var points: [(across: Double, up: Double)]

  init(name: String, points: [(Double, Double)]) {
    self.name = name
    self.points = points.map { (across: $0.0, up: $0.1) }
  }
}

/// A chart of lines with two logarithmic axes.
struct Chart {
  var title: String
  var across: String
  var up: String
  var lines: [PlotLine]

  init(title: String, across: String, up: String, lines: [PlotLine]) {
    self.title = title
    self.across = across
    self.up = up
    self.lines = lines
  }
}

/// Draws charts below one another in one SVG, for light and dark pages.
enum Plot {
  private static let size = (width: 860.0, height: 420.0)
  private static let frame = (left: 96.0, top: 52.0, right: 600.0, bottom: 352.0)

  static func svg(_ charts: [Chart]) -> String {
    let height = size.height * Double(charts.count)
    let drawn = charts.enumerated().map { index, chart in
      "<g transform=\"translate(0 \(number(Double(index) * size.height)))\">\n\(draw(chart))</g>\n"
    }
    return """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(number(size.width)) \(number(height))" \
      width="\(number(size.width))" height="\(number(height))" role="img" \
      font-family="sans-serif" font-size="13">
      <title>\(escaped(charts.map(\.title).joined(separator: "; ")))</title>
      <style>
      .page { fill: #ffffff } .ink { fill: #222222 } .axis { stroke: #222222 }
      .grid { stroke: #dddddd }
      .line { fill: none; stroke-width: 2 } .name { font-weight: bold }
      .s0 { stroke: #555555 } .s1 { stroke: #1a66b0 } .s2 { stroke: #b8480a } .s3 { stroke: #1f7a3a }
      .f0 { fill: #555555 } .f1 { fill: #1a66b0 } .f2 { fill: #b8480a } .f3 { fill: #1f7a3a }
      @media (prefers-color-scheme: dark) {
      .page { fill: #16181c } .ink { fill: #e6e6e6 } .axis { stroke: #e6e6e6 }
      .grid { stroke: #3a3d44 }
      .s0 { stroke: #b0b0b0 } .s1 { stroke: #6cb0f2 } .s2 { stroke: #f59a5c } .s3 { stroke: #6fce8c }
      .f0 { fill: #b0b0b0 } .f1 { fill: #6cb0f2 } .f2 { fill: #f59a5c } .f3 { fill: #6fce8c }
      }
      </style>
      <rect class="page" width="100%" height="100%"/>
      \(drawn.joined())</svg>

      """
  }

  private static func draw(_ chart: Chart) -> String {
    let points = chart.lines.flatMap(\.points).filter { $0.across > 0 && $0.up > 0 }
    guard let across = LogScale(points.map(\.across), from: frame.left, to: frame.right),
      let up = LogScale(points.map(\.up), from: frame.bottom, to: frame.top)
    else { return text(chart.title, frame.left, 28, "ink name") }
    var result = text(chart.title, frame.left, 28, "ink name")
    for tick in up.ticks {
      let y = up.place(tick)
      result += line(frame.left, y, frame.right, y, "grid")
      result += text(Digits.plain(tick), frame.left - 8, y + 4, "ink", anchor: "end")
    }
    for tick in Set(points.map(\.across)).sorted() {
      let x = across.place(tick)
      result += line(x, frame.bottom, x, frame.bottom + 5, "axis")
      result += text(Digits.plain(tick), x, frame.bottom + 20, "ink", anchor: "middle")
    }
    result += line(frame.left, frame.bottom, frame.right, frame.bottom, "axis")
    result += line(frame.left, frame.top, frame.left, frame.bottom, "axis")
    let middle = (frame.left + frame.right) / 2
    result += text(chart.across, middle, frame.bottom + 42, "ink", anchor: "middle")
    let side = (frame.top + frame.bottom) / 2
    result +=
      "<g transform=\"rotate(-90 20 \(number(side)))\">"
      + text(chart.up, 20, side, "ink", anchor: "middle") + "</g>\n"
    return result + draw(chart.lines, across, up)
  }

  /// Draws the lines, with a name at the end of each; names that would overlap are moved apart.
  private static func draw(_ lines: [PlotLine], _ across: LogScale, _ up: LogScale) -> String {
    var result = ""
    var names: [(text: String, kind: Int, y: Double)] = []
    for (index, plotted) in lines.enumerated() {
      let kind = index % 4
      let places = plotted.points.filter { $0.up > 0 }
        .map { (x: across.place($0.across), y: up.place($0.up)) }
      let path = places.map { "\(number($0.x)),\(number($0.y))" }.joined(separator: " ")
      result += "<polyline class=\"line s\(kind)\" points=\"\(path)\"/>\n"
      for place in places {
        result +=
          "<circle class=\"f\(kind)\" cx=\"\(number(place.x))\" cy=\"\(number(place.y))\" r=\"3.5\"/>\n"
      }
      if let last = places.last { names.append((plotted.name, kind, last.y)) }
    }
    var lowest = -Double.infinity
    for name in names.sorted(by: { $0.y < $1.y }) {
      let y = max(name.y, lowest + 17)
      lowest = y
      result += text(name.text, frame.right + 12, y + 4, "f\(name.kind)")
    }
    return result
  }

  private static func line(
    _ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, _ kind: String
  ) -> String {
    "<line class=\"\(kind)\" x1=\"\(number(x1))\" y1=\"\(number(y1))\" x2=\"\(number(x2))\""
      + " y2=\"\(number(y2))\"/>\n"
  }

  private static func text(
    _ text: String, _ x: Double, _ y: Double, _ kind: String, anchor: String = "start"
  ) -> String {
    "<text class=\"\(kind)\" x=\"\(number(x))\" y=\"\(number(y))\" text-anchor=\"\(anchor)\">"
      + "\(escaped(text))</text>\n"
  }

  private static func number(_ value: Double) -> String { Digits.fixed(value, 1) }

  static func escaped(_ text: String) -> String {
    text.map { character in
      switch character {
      case "&": "&amp;"
      case "<": "&lt;"
      case ">": "&gt;"
      case "\"": "&quot;"
      default: String(character)
      }
    }.joined()
  }
}

/// A logarithmic axis.
struct LogScale {
  private let lowest: Double
  private let highest: Double
  private let start: Double
  private let end: Double

  /// Creates an axis between two round numbers; nil if there is nothing to show.
  init?(_ values: [Double], from start: Double, to end: Double) {
    guard let spread = Spread(values), spread.least > 0 else { return nil }
    let below = Self.rounds.last { $0 <= spread.least } ?? spread.least
    lowest = below
    highest = Self.rounds.first { $0 >= spread.greatest && $0 > below } ?? spread.greatest * 2
    self.start = start
    self.end = end
  }

  /// One, two and five of each power of ten.
  private static let rounds: [Double] = (-9...15).flatMap { power in
    let decade = power < 0 ? 1 / pow(10, Double(-power)) : pow(10, Double(power))
    return [decade, 2 * decade, 5 * decade]
  }

  func place(_ value: Double) -> Double {
    start + (end - start) * (log(value / lowest) / log(highest / lowest))
  }

  /// The round numbers on the axis.
  var ticks: [Double] { Self.rounds.filter { $0 >= lowest && $0 <= highest } }
}
