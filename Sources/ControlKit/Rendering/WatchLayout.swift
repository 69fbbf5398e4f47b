import SharedBreaker

/// The layout of a live view: the table between a title and a line of keys.
struct WatchLayout {
  var title: String
  var now: BreakerTimestamp

  /// Why the view may be out of date; nil if it is current.
  var trouble: String?

  /// The line that counts the breakers.
  var summary: String

  /// The lines of the table, beginning with its heading.
  var table: [String]

  /// The latest change since the view was opened, if any.
  var latest: String?

  /// How many breakers have scrolled away above.
  private(set) var offset = 0

  init(
    title: String, now: BreakerTimestamp, trouble: String? = nil, summary: String, table: [String],
    latest: String? = nil, offset: Int = 0
  ) {
    (self.title, self.now, self.trouble, self.summary) = (title, now, trouble, summary)
    (self.table, self.latest, self.offset) = (table, latest, offset)
  }

  /// How many breakers there is room for.
  static func room(height: Int) -> Int { max(1, height - (isSmall(height) ? 1 : 7)) }

  /// Whether the screen is so small that it shows the table alone.
  private static func isSmall(_ height: Int) -> Bool { height < 10 }

  /// The lines, at most as many as the screen has.
  func lines(width: Int, height: Int, painter: Painter) -> [String] {
    let head = table.prefix(1)
    let rows = table.dropFirst().dropFirst(offset).prefix(Self.room(height: height))
    if Self.isSmall(height) { return Array((head + rows).prefix(height)) }
    let clock = "\(now.description.prefix(19).dropFirst(11))Z"
    var lines = [
      Self.between(VisibleText.bare(title), clock, width, painter),
      trouble.map { painter.paint(TextWidth.cut(VisibleText.bare($0), to: width), .red) }
        ?? summary,
      "",
    ]
    lines += head + rows
    lines += Array(repeating: "", count: max(0, height - 3 - lines.count))
    lines += ["", painter.paint(TextWidth.cut(VisibleText.bare(latest ?? ""), to: width), .faint)]
    let count = table.count - 1
    let range = rows.count < count ? "\(offset + 1)-\(offset + rows.count) of \(count)" : ""
    let keys = "q quit" + (range.isEmpty ? "" : "  ↑↓ scroll")
    return lines + [Self.between(keys, range, width, painter)]
  }

  /// A line with one text at each end, as far as there is room.
  private static func between(
    _ left: String, _ right: String, _ width: Int, _ painter: Painter
  ) -> String {
    let room = max(0, width - TextWidth.of(right) - 2)
    let left = TextWidth.cutInside(left, to: room)
    let gap = String(
      repeating: " ", count: max(0, width - TextWidth.of(left) - TextWidth.of(right)))
    return painter.paint(right.isEmpty ? left : left + gap + right, .faint)
  }
}

extension WatchLayout {
  /// The offset after a key, for a number of breakers and the room for them.
  static func offset(_ offset: Int, after key: Key?, count: Int, room: Int) -> Int {
    let target =
      switch key {
      case .up: offset - 1
      case .down: offset + 1
      case .pageUp: offset - room
      case .pageDown: offset + room
      case .top: 0
      case .bottom: count
      case .quit, .redraw, nil: offset
      }
    return max(0, min(target, count - room))
  }
}
