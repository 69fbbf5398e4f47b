/// Rows of text in aligned columns, two spaces apart.
struct Table {
  struct Column {
    var title: String
    var isRightAligned = false

    /// The width to which the column is cut on a narrow terminal; nil if it cannot be cut.
    var comfortableWidth: Int?

    /// Whether text that is cut also keeps its end.
    var keepsEnd = false

    /// The lower, the earlier the column is left out if cutting is not enough; nil for one that stays.
    var rank: Int?
  }

  struct Cell {
    let text: String
    let width: Int
    let color: Color?

    /// Creates a cell, and makes characters visible that would control a terminal.
    init(_ text: String, _ color: Color? = nil) {
      self.text = VisibleText.bare(text)
      width = TextWidth.of(self.text)
      self.color = color
    }
  }

  private static let gap = "  "

  /// The width that a column keeps when nothing else can be cut or left out.
  private static let narrowest = 8

  var columns: [Column]
  var rows: [[Cell]] = []

  /// The lines of the table, each with its line end; cut to `width` columns if one is given.
  func render(width: Int? = nil, painter: Painter = Painter(isOn: false)) -> String {
    let layout = fitted(to: width)
    let titles = columns.map { Cell($0.title, .faint) }
    var result = ""
    write(titles, layout, painter, to: &result)
    for row in rows { write(row, layout, painter, to: &result) }
    return result
  }

  /// Which columns are shown, and the width of each.
  private typealias Layout = [(column: Int, width: Int)]

  private func fitted(to width: Int?) -> Layout {
    var layout: Layout = columns.indices.map { ($0, TextWidth.of(columns[$0].title)) }
    for row in rows {
      for (index, cell) in row.enumerated() {
        layout[index].width = max(layout[index].width, cell.width)
      }
    }
    guard let width else { return layout }
    while true {
      // Columns that can be left out are cut first.
      let shrunk = shrink(layout, to: width) { columns[$0].rank != nil }
      let cut = shrink(shrunk, to: width) { _ in true }
      if Self.total(cut) <= width { return cut }
      let least = layout.indices.filter { columns[layout[$0].column].rank != nil }.min {
        (columns[layout[$0].column].rank ?? 0) < (columns[layout[$1].column].rank ?? 0)
      }
      guard let least else {
        return squeezed(shrink(layout, to: width, least: Self.narrowest) { _ in true }, to: width)
      }
      layout.remove(at: least)
    }
  }

  private func shrink(
    _ layout: Layout, to width: Int, least: Int? = nil, where applies: (Int) -> Bool
  ) -> Layout {
    var layout = layout
    var excess = Self.total(layout) - width
    for index in layout.indices where excess > 0 && applies(layout[index].column) {
      guard let comfortable = columns[layout[index].column].comfortableWidth else { continue }
      let old = layout[index].width
      layout[index].width = max(min(old, least ?? comfortable), old - excess)
      excess -= old - layout[index].width
    }
    return layout
  }

  /// The last resort: cuts whatever does not fit, and marks it with an ellipsis.
  ///
  /// A terminal would cut a line without a mark, and a number that has lost a digit is another number.
  private func squeezed(_ layout: Layout, to width: Int) -> Layout {
    var layout = layout
    for index in layout.indices.reversed() {
      layout[index].width = max(1, layout[index].width - max(0, Self.total(layout) - width))
    }
    return layout
  }

  private static func total(_ layout: Layout) -> Int {
    layout.reduce(0) { $0 + $1.width } + gap.count * (layout.count - 1)
  }

  private func write(
    _ cells: [Cell], _ layout: Layout, _ painter: Painter, to result: inout String
  ) {
    var owedSpaces = 0
    for (column, width) in layout {
      let cell = cells[column]
      var text = cell.text
      if cell.width > width {
        text =
          columns[column].keepsEnd
          ? TextWidth.cutInside(text, to: width) : TextWidth.cut(text, to: width)
      }
      let padding = width - (cell.width > width ? TextWidth.of(text) : cell.width)
      let before = columns[column].isRightAligned ? padding : 0
      // Spaces are written only before more text, so that no line ends in spaces.
      if !text.isEmpty { result += String(repeating: " ", count: owedSpaces + before) }
      owedSpaces = text.isEmpty ? owedSpaces + width : padding - before
      owedSpaces += Self.gap.count
      result += painter.paint(text, cell.color)
    }
    result += "\n"
  }
}

/// The colours that commands print.
enum Color: String, Sendable, Hashable {
  case red = "31"
  case green = "32"
  case yellow = "33"
  case bold = "1"
  case faint = "2"
}

/// Colours text, or leaves it unchanged if colours are off.
struct Painter: Sendable, Hashable {
  var isOn: Bool

  func paint(_ text: String, _ color: Color?) -> String {
    guard isOn, let color, !text.isEmpty else { return text }
    return "\u{1b}[\(color.rawValue)m\(text)\u{1b}[0m"
  }
}
