/// Rows of text in aligned columns, two spaces apart.
struct Table {
  struct Column {
    var title: String
    var isRightAligned = false

    /// Whether the column gives way when the table is wider than the terminal.
    var canShrink = false
  }

  struct Cell {
    var text: String
    var color: Color?

    /// A cell with text from anywhere: what would steer a terminal is made visible.
    init(_ text: String, _ color: Color? = nil) {
      self.text = VisibleText.bare(text)
      self.color = color
    }
  }

  private static let gap = "  "
  private static let narrowest = 8

  var columns: [Column]
  var rows: [[Cell]] = []

  /// The lines of the table, each ended; cut to `width` columns if one is given.
  func render(width: Int? = nil, painter: Painter = Painter(isOn: false)) -> String {
    let widths = fitted(to: width)
    let titles = columns.map { Cell($0.title, .faint) }
    return ([titles] + rows).map { line($0, widths, painter) + "\n" }.joined()
  }

  private func fitted(to width: Int?) -> [Int] {
    var widths = columns.map { TextWidth.of($0.title) }
    for row in rows {
      for (index, cell) in row.enumerated() {
        widths[index] = max(widths[index], TextWidth.of(cell.text))
      }
    }
    guard let width else { return widths }
    var excess = widths.reduce(0, +) + Self.gap.count * (columns.count - 1) - width
    for (index, column) in columns.enumerated() where column.canShrink && excess > 0 {
      let shrunk = max(min(widths[index], Self.narrowest), widths[index] - excess)
      excess -= widths[index] - shrunk
      widths[index] = shrunk
    }
    return widths
  }

  private func line(_ cells: [Cell], _ widths: [Int], _ painter: Painter) -> String {
    var result = ""
    var owedSpaces = 0
    for (index, cell) in cells.enumerated() {
      let text = TextWidth.cut(cell.text, to: widths[index])
      let padding = widths[index] - TextWidth.of(text)
      let before = columns[index].isRightAligned ? padding : 0
      // Spaces are written only before more text, so that no line ends in any.
      result += String(repeating: " ", count: text.isEmpty ? 0 : owedSpaces + before)
      owedSpaces = text.isEmpty ? owedSpaces + widths[index] : padding - before
      owedSpaces += Self.gap.count
      result += painter.paint(text, cell.color)
    }
    return result
  }
}
