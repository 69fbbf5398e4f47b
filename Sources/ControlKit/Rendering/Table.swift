/// Rows of text in aligned columns, two spaces apart.
struct Table {
  struct Column {
    var title: String
    var isRightAligned = false

    /// Whether the column gives way when the table is wider than the terminal.
    var canShrink = false
  }

  struct Cell {
    let text: String
    let width: Int
    let color: Color?

    /// A cell with text from anywhere: what would steer a terminal is made visible.
    init(_ text: String, _ color: Color? = nil) {
      self.text = VisibleText.bare(text)
      width = TextWidth.of(self.text)
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
    var result = ""
    write(titles, widths, painter, to: &result)
    for row in rows { write(row, widths, painter, to: &result) }
    return result
  }

  private func fitted(to width: Int?) -> [Int] {
    var widths = columns.map { TextWidth.of($0.title) }
    for row in rows {
      for (index, cell) in row.enumerated() {
        widths[index] = max(widths[index], cell.width)
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

  private func write(
    _ cells: [Cell], _ widths: [Int], _ painter: Painter, to result: inout String
  ) {
    var owedSpaces = 0
    for (index, cell) in cells.enumerated() {
      let isTooWide = cell.width > widths[index]
      let text = isTooWide ? TextWidth.cut(cell.text, to: widths[index]) : cell.text
      let padding = widths[index] - (isTooWide ? TextWidth.of(text) : cell.width)
      let before = columns[index].isRightAligned ? padding : 0
      // Spaces are written only before more text, so that no line ends in any.
      if !text.isEmpty { result += String(repeating: " ", count: owedSpaces + before) }
      owedSpaces = text.isEmpty ? owedSpaces + widths[index] : padding - before
      owedSpaces += Self.gap.count
      result += painter.paint(text, cell.color)
    }
    result += "\n"
  }
}
