import SharedBreaker

/// What happened: when, what, why, and who did it.
struct PageHistory {
  var now: BreakerTimestamp

  /// The positions of the breakers on the page; nil if all entries are about one breaker.
  var places: [NameBytes: Int]?

  /// The table of entries, which are given oldest first.
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
      <td role="cell" class="who">\(who(entry))</td></tr>

      """
  }

  private func who(_ entry: HistoryEntry) -> HTML {
    if entry.user != nil || entry.command != nil { return "<bdi>\(entry.author)</bdi>" }
    let host: HTML = entry.host.map { " for <bdi>\($0)</bdi>" } ?? .nothing
    return "<bdi>\(entry.program)</bdi> <i>pid \(entry.pid)</i>\(host)"
  }

  /// The name of a breaker, with a link unless the breaker was deleted.
  private func link(to name: String, _ places: [NameBytes: Int]) -> HTML {
    let shown = VisibleText.name(name)
    guard let place = places[NameBytes(name)] else { return "<bdi>\(shown)</bdi>" }
    return "<a href=\"#b\(place + 1)\"><bdi>\(shown)</bdi></a>"
  }

  private func what(_ entry: HistoryEntry) -> HTML {
    let words = entry.change.words(arrow: "→")
    if case .transition = entry.change { return "\(words)" }
    return "\(entry.change.wireKind): \(words)"
  }
}

/// What the tables of a page have in common.
///
/// Rows and cells name their roles, because a browser that shows them as blocks, as on a narrow
/// screen, may no longer treat them as rows and cells.
enum PageTable {
  static func title(_ words: String) -> HTML {
    "<th role=\"columnheader\" scope=\"col\">\(words)</th>"
  }
}
