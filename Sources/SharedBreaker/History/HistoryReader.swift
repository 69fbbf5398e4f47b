internal import BreakerStore

/// How far a listener has read the history of a store or of one breaker.
struct HistoryReader: Sendable {
  let name: String?

  /// The last entry that has been read; nil if reading begins where the history now ends.
  private var last: Int64?

  /// The file that ``last`` belongs to; nil if it is not known.
  private var store: Int64?
  private var isAfterGap = false

  private static let batchSize = 256

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
    var batch = try storage.events(after: last ?? .max, of: name, limit: Self.batchSize)
    if goOn(in: batch) {
      batch = try storage.events(after: last ?? .max, of: name, limit: Self.batchSize)
      // The file was replaced once more, so the next read starts over.
      guard batch.store == store else { return [] }
    }
    let entries = batch.events.map { event in
      let isGap = event.isAfterGap(since: last ?? 0, of: name)
      defer {
        last = event.id
        isAfterGap = false
      }
      return HistoryEntry(event, isAfterGap: isAfterGap || isGap)
    }
    if entries.count < Self.batchSize { last = batch.newest }
    return entries
  }

  /// Notes the file of a batch; returns whether reading has to continue from somewhere else.
  private mutating func goOn(in batch: EventBatch) -> Bool {
    let known = store
    store = batch.store
    guard let last else {
      self.last = batch.newest
      return false
    }
    if known == batch.store || known == nil, last <= batch.newest { return false }
    // An older copy of the same file has nothing new to read. Another file has.
    self.last = known == batch.store ? batch.newest : 0
    isAfterGap = true
    return true
  }
}
