import SharedBreaker

/// What happened: when, what, why, and who did it.
struct PageHistory {
  var now: Timestamp

  /// Where the breakers stand on the page; nil if all is about one.
  var places: [NameBytes: Int]?

  /// The table of entries that are oldest first.
  func table(of entries: [HistoryEntry], caption: String) -> HTML {
    if entries.isEmpty { return "<p>Nothing has changed yet.</p>" }
    let titles = ["When"] + (places == nil ? [] : ["Breaker"]) + ["What", "Why", "Who"]
    return """
      <table class="history" role="table">
      <caption>\(caption)</caption>
      <thead role="rowgroup"><tr role="row">\(titles.map(PageTable.title))</tr></thead>
      <tbody role="rowgroup">
      \(entries.reversed().map(row))</tbody>
      </table>
      """
  }

  private func row(_ entry: HistoryEntry) -> HTML {
    let name: HTML = places.map { "<td role=\"cell\">\(link(to: entry.name, $0))</td>" } ?? .nothing
    return """
      <tr role="row"><td role="cell">\(PageTime.brief(entry.at, at: now))</td>\(name)\
      <td role="cell" class="what">\(what(entry))</td><td role="cell" class="why">\(entry.reason ?? "")</td>\
      <td role="cell" class="who"><bdi>\(entry.program)</bdi> <i>pid \(entry.pid)</i></td></tr>

      """
  }

  /// A breaker that was deleted has left its history, and no place of its own.
  private func link(to name: String, _ places: [NameBytes: Int]) -> HTML {
    let shown = VisibleText.name(name)
    guard let place = places[NameBytes(name)] else { return "<bdi>\(shown)</bdi>" }
    return "<a href=\"#b\(place + 1)\"><bdi>\(shown)</bdi></a>"
  }

  private func what(_ entry: HistoryEntry) -> HTML {
    let change: HTML =
      entry.from == entry.to || entry.from.isEmpty
      ? "\(entry.to)" : "\(entry.from) → \(entry.to)"
    return entry.kind == "transition" ? change : "\(entry.kind): \(change)"
  }
}

/// What the tables of a page have in common.
///
/// Their rows and cells say what they are: a browser that shows them as blocks, as a narrow screen
/// gets them, may no longer take them for rows and cells.
enum PageTable {
  static func title(_ words: String) -> HTML {
    "<th role=\"columnheader\" scope=\"col\">\(words)</th>"
  }
}
