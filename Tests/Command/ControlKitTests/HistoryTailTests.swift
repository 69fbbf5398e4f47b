import Testing

@testable import BreakerStore
@testable import ControlKit
@testable import SharedBreaker

/// A history that was printed, and the news that follow it.
@Suite struct HistoryTailTests {
  /// An entry of the store's file, or of one that takes its place.
  private static func entry(
    _ id: Int64, inFile file: Int64 = 1, isAfterGap: Bool = false
  ) -> HistoryEntry {
    HistoryEntry(
      RecordedEvent(
        id: id, atMilliseconds: file * 1_000_000 + id, name: "pay", change: .extended, reason: nil,
        pid: 1, program: "test"), isAfterGap: isAfterGap)
  }

  private static func unseen(
    of news: [HistoryEntry], after printed: [HistoryEntry]
  ) -> [HistoryEntry] {
    var whole = HistoryTail(after: printed)
    let atOnce = whole.unseen(of: news)
    var pieces = HistoryTail(after: printed)
    #expect(news.flatMap { pieces.unseen(of: [$0]) } == atOnce)
    return atOnce
  }

  @Test func `entries that the printed history already has are not printed again`() {
    let news = (3...7).map { Self.entry($0) }
    #expect(
      Self.unseen(of: news, after: (1...5).map { Self.entry($0) }) == [news[3], news[4]])
    // The news may be older than a short beginning.
    #expect(Self.unseen(of: news, after: [Self.entry(5)]) == [news[3], news[4]])
  }

  @Test func `every new entry is printed if nothing was printed before`() {
    let news = (3...5).map { Self.entry($0) }
    #expect(Self.unseen(of: news, after: []) == news)
  }

  @Test func `the entries of a replaced file are printed from the beginning`() {
    let news = [Self.entry(6)] + (1...3).map { Self.entry($0, inFile: 2, isAfterGap: $0 == 1) }
    #expect(Self.unseen(of: news, after: (4...5).map { Self.entry($0) }) == news)
  }

  @Test func `a file that was replaced before the history was read is printed once`() {
    let printed = (1...2).map { Self.entry($0, inFile: 2) }
    let news = [Self.entry(6)] + (1...3).map { Self.entry($0, inFile: 2, isAfterGap: $0 == 1) }
    #expect(Self.unseen(of: news, after: printed) == [news[0], news[3]])
  }

  @Test func `entries after a gap in the same file are printed once`() {
    let printed = (4...5).map { Self.entry($0) }
    let news = (4...6).map { Self.entry($0, isAfterGap: $0 == 4) }
    #expect(Self.unseen(of: news, after: printed) == [news[2]])
  }
}
