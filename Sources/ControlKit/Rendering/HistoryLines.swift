import SharedBreaker

/// Entries of the history, one aligned line each.
struct HistoryLines {
  /// The present, for ages beside the times, if people read it on a terminal.
  var now: Timestamp?

  /// Where lines are broken; nil if they are not.
  var width: Int?

  /// Whether the entries are of several breakers, whose names stand beside them.
  var hasNames = false

  /// How wide the columns are: entries that come later are aligned with earlier ones.
  private var widths: [Int] = []

  /// A policy may change by more words than fit a column: such a line has its end further right.
  private static let widestChange = 30

  init(now: Timestamp? = nil, width: Int? = nil, hasNames: Bool = false) {
    self.now = now
    self.width = width
    self.hasNames = hasNames
  }

  func render(_ entries: [HistoryEntry], painter: Painter = Painter(isOn: false)) -> [String] {
    var copy = self
    return copy.add(entries, painter: painter)
  }

  /// The lines of entries that come after those that were added before.
  mutating func add(
    _ entries: [HistoryEntry], painter: Painter = Painter(isOn: false)
  ) -> [String] {
    let rows = entries.map { cells(of: $0).map(VisibleText.bare) }
    for row in rows {
      if widths.isEmpty { widths = row.map { _ in 0 } }
      for (index, text) in row.enumerated() {
        let width = TextWidth.of(text)
        let isAside = index == row.count - 1 && width > Self.widestChange
        if !isAside { widths[index] = max(widths[index], width) }
      }
    }
    return zip(rows, entries).flatMap { row, entry in
      var line = ""
      for (index, text) in row.enumerated() {
        let padding = String(repeating: " ", count: max(0, widths[index] - TextWidth.of(text)))
        line += (isAge(index) ? padding + text : text + padding) + "  "
      }
      let ending = Self.ending(entry)
      guard let width else { return [line + ending] }
      return TextWrap.hanging(ending, after: line, width: width)
    }
  }

  private func isAge(_ index: Int) -> Bool { now != nil && index == 1 }

  private func cells(of entry: HistoryEntry) -> [String] {
    let times =
      now.map { [Age.clock(of: entry.at, at: $0), Age.short(of: entry.at, at: $0)] }
      ?? [entry.at.description]
    return times + (hasNames ? [VisibleText.name(entry.name)] : [])
      + [entry.kind, Self.change(entry)]
  }

  private static func change(_ entry: HistoryEntry) -> String {
    entry.from == entry.to || entry.from.isEmpty ? entry.to : "\(entry.from) -> \(entry.to)"
  }

  /// Who, and why: a reason may be a kilobyte long, so it stands last and in no column.
  private static func ending(_ entry: HistoryEntry) -> String {
    let author = "\(entry.program) (pid \(entry.pid))"
    return VisibleText.bare(entry.reason.map { "\(author): \($0)" } ?? author)
  }
}
