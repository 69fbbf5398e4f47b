import SharedBreaker

/// History entries, one aligned line each.
struct HistoryLines {
  /// The present, for ages beside the times on a terminal; nil in a pipe.
  var now: BreakerTimestamp?

  /// The width at which lines are wrapped; nil for no wrapping.
  var width: Int?

  /// Whether each line names its breaker, because the entries are about several.
  var hasNames = false

  /// The widths of the columns, so that later entries are aligned with earlier ones.
  private var widths: [Int] = []

  /// The widest change that sets a column's width; a longer one moves the end of its line right.
  private static let widestChange = 30

  init(now: BreakerTimestamp? = nil, width: Int? = nil, hasNames: Bool = false) {
    self.now = now
    self.width = width
    self.hasNames = hasNames
  }

  func render(_ entries: [HistoryEntry], painter: Painter = Painter(isOn: false)) -> [String] {
    var copy = self
    return copy.add(entries, painter: painter)
  }

  /// The lines of further entries, aligned with those of earlier ones.
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

  /// One entry in a few words, without its name and its time: `closed -> open: 5 failures`.
  static func words(_ entry: HistoryEntry) -> String {
    VisibleText.bare(change(entry) + (entry.reason.map { ": \($0)" } ?? ""))
  }

  /// One entry as a line of its own.
  static func sentence(_ entry: HistoryEntry, at now: BreakerTimestamp) -> String {
    "\(Age.clock(of: entry.at, at: now))  \(VisibleText.name(entry.name)): \(words(entry))"
      + ", \(entry.program) (pid \(entry.pid))"
  }

  private func isAge(_ index: Int) -> Bool { now != nil && index == 1 }

  private func cells(of entry: HistoryEntry) -> [String] {
    let times =
      now.map { [Age.clock(of: entry.at, at: $0), Age.short(of: entry.at, at: $0)] }
      ?? [entry.at.description]
    return times + (hasNames ? [VisibleText.name(entry.name)] : [])
      + [entry.change.wireKind, Self.change(entry)]
  }

  private static func change(_ entry: HistoryEntry) -> String {
    let (from, to) = (entry.change.wireFrom, entry.change.wireTo)
    return from == to || from.isEmpty ? to : "\(from) -> \(to)"
  }

  /// Who did it and why, at the end of the line because a reason can be a kilobyte long.
  private static func ending(_ entry: HistoryEntry) -> String {
    let author = "\(entry.program) (pid \(entry.pid))"
    return VisibleText.bare(entry.reason.map { "\(author): \($0)" } ?? author)
  }
}
