internal import BreakerStore

/// How far a listener has read the history of a store or of one breaker.
struct HistoryReader: Sendable {
  let name: String?

  /// The last entry that has been read; nil if reading begins where the history now ends.
  private var last: Int64?

  /// The file that ``last`` belongs to; nil if it is not known.
  private var store: Int64?
  private var isAfterGap = false

  private static let pageSize = 256

  init(name: String?, after last: Int64?) {
    self.name = name
    self.last = last
  }

  /// Begins where the history now ends; if that cannot be read, where it ends at the first read.
  mutating func begin(in storage: any BreakerStorage) {
    do throws(StoreError) {
      _ = try read(from: storage)
    } catch {
      // The calls of this process find out what is wrong with the store, and report it.
    }
  }

  /// Returns the next entries; none if there is nothing new.
  mutating func read(from storage: any BreakerStorage) throws(StoreError) -> [HistoryEntry] {
    var page = try storage.events(after: last ?? .max, of: name, limit: Self.pageSize)
    if goOn(in: page) {
      page = try storage.events(after: last ?? .max, of: name, limit: Self.pageSize)
      // The file was replaced once more, so the next read starts over.
      guard page.store == store else { return [] }
    }
    let entries = page.events.map { event in
      let isGap = event.isAfterGap(since: last ?? 0, of: name)
      defer {
        last = event.id
        isAfterGap = false
      }
      return HistoryEntry(event, isAfterGap: isAfterGap || isGap)
    }
    if entries.count < Self.pageSize { last = page.newest }
    return entries
  }

  /// Notes the file of a page; returns whether reading has to continue from somewhere else.
  private mutating func goOn(in page: EventPage) -> Bool {
    let known = store
    store = page.store
    guard let last else {
      self.last = page.newest
      return false
    }
    if known == page.store || known == nil, last <= page.newest { return false }
    // An older copy of the same file has nothing new to read. Another file has.
    self.last = known == page.store ? page.newest : 0
    isAfterGap = true
    return true
  }
}
