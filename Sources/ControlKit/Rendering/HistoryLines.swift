import SharedBreaker

/// Entries of the history, one aligned line each.
enum HistoryLines {
  /// A policy may change by more words than fit a column: such a line has its end further right.
  private static let widestChange = 30

  static func render(_ entries: [HistoryEntry], hasNames: Bool) -> [String] {
    let rows = entries.map { entry in
      let names = hasNames ? [VisibleText.name(entry.name)] : []
      return ([entry.at.description] + names + [entry.kind, change(entry)]).map(VisibleText.bare)
    }
    let columns = (rows.first ?? []).indices
    let widths = columns.map { index in
      let widths = rows.map { TextWidth.of($0[index]) }
      return (index == columns.last ? widths.filter { $0 <= widestChange } : widths).max() ?? 0
    }
    return zip(rows, entries).map { row, entry in
      var line = ""
      for (text, width) in zip(row, widths) {
        line += text + String(repeating: " ", count: max(0, width - TextWidth.of(text)) + 2)
      }
      return line + ending(entry)
    }
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
