/// Cells side by side in columns; where a terminal has no room for one, it goes on below.
struct FlowingRow {
  /// What stands before the first cell, and always stays in one piece.
  var lead: String

  var cells: [String]

  /// The widths to which cells are padded; the last cell has none.
  var widths: [Int]

  private static let gap = "  "

  /// The narrowest column in which a text that is longer may be wrapped.
  private static let narrowest = 20

  /// The row as one line.
  var line: String {
    var line = lead
    for (place, cell) in cells.enumerated() { line += padded(cell, at: place) }
    return line
  }

  /// The lines of the row, broken between words, and inside words that are longer than a line.
  func lines(width: Int) -> [String] {
    var lines = [lead]
    // The columns in which the earlier cells begin, from left to right.
    var starts: [Int] = []
    var isBroken = false
    for (place, cell) in cells.enumerated() {
      let needed = min(TextWidth.of(cell), Self.narrowest)
      var start = TextWidth.of(lines[lines.count - 1])
      if isBroken || start + needed > width {
        start = starts.last { $0 + needed <= width } ?? 0
        lines.append(Self.spaces(start))
      }
      starts = starts.filter { $0 < start } + [start]
      let parts = TextWrap.lines(cell, width: max(1, width - start))
      isBroken = parts.count > 1
      lines[lines.count - 1] += isBroken ? parts[0] : padded(cell, at: place)
      lines += parts.dropFirst().map { Self.spaces(start) + $0 }
    }
    return lines.map(Self.withoutTrailingSpaces)
  }

  private func padded(_ cell: String, at place: Int) -> String {
    guard place < widths.count else { return cell }
    return cell + Self.spaces(widths[place] - TextWidth.of(cell)) + Self.gap
  }

  private static func spaces(_ count: Int) -> String {
    String(repeating: " ", count: max(0, count))
  }

  private static func withoutTrailingSpaces(_ line: String) -> String {
    String(line.reversed().drop { $0 == " " }.reversed())
  }
}
