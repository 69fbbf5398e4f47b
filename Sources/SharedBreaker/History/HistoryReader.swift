internal import BreakerStore

/// How far somebody has read in the history of a store, or of one of its breakers.
struct HistoryReader: Sendable {
  let name: String?

  /// The last entry that needs no more reading; nil if it begins where the history now ends.
  private var last: Int64?

  /// The file that it is in; nil if that is not known.
  private var store: Int64?
  private var isAfterGap = false

  private static let pageSize = 256

  init(name: String?, after last: Int64?) {
    self.name = name
    self.last = last
  }

  /// Begins where the history now ends; if that cannot be told, at the first reading.
  mutating func begin(in storage: any BreakerStorage) {
    do throws(StoreError) {
      _ = try read(from: storage)
    } catch {
      // What keeps the store from being read is told to those who make calls.
    }
  }

  /// What comes next; nothing if there is nothing new.
  mutating func read(from storage: any BreakerStorage) throws(StoreError) -> [HistoryEntry] {
    var page = try storage.events(after: last ?? .max, of: name, limit: Self.pageSize)
    if goOn(in: page) {
      page = try storage.events(after: last ?? .max, of: name, limit: Self.pageSize)
      // Replaced once more: the next reading begins anew.
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

  /// Answers whether it has to be read from somewhere else, as the file is another one.
  private mutating func goOn(in page: EventPage) -> Bool {
    let known = store
    store = page.store
    guard let last else {
      self.last = page.newest
      return false
    }
    if known == page.store || known == nil, last <= page.newest { return false }
    // An older copy of the same file has nothing that was not read before. Another file has.
    self.last = known == page.store ? page.newest : 0
    isAfterGap = true
    return true
  }
}
