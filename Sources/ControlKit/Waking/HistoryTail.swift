import SharedBreaker

/// Where a printed history goes on in the news, so that no entry is printed twice and none is lost.
///
/// The news begin before the history is read, so they may have entries that it has too.
struct HistoryTail {
  /// What an entry is told by, because another file uses the same numbers again.
  private struct Mark: Hashable {
    var id: Int64
    var at: BreakerTimestamp
    var name: String

    init(_ entry: HistoryEntry) { (id, at, name) = (entry.id, entry.at, entry.name) }
  }

  private let printed: Set<Mark>
  private var last: Int64

  init(after printed: [HistoryEntry]) {
    self.printed = Set(printed.map { Mark($0) })
    last = printed.last?.id ?? 0
  }

  /// The entries of the next news that have not been printed.
  mutating func unseen(of news: [HistoryEntry]) -> [HistoryEntry] {
    var unseen: [HistoryEntry] = []
    // After a gap another file may have taken the place of the store's, and the numbers begin again.
    for entry in news where entry.isAfterGap || entry.id > last {
      last = entry.id
      if !printed.contains(Mark(entry)) { unseen.append(entry) }
    }
    return unseen
  }
}
