internal import BreakerStore

extension SharedStore {
  /// Follows what happens in all processes, each entry once and in order.
  ///
  /// ```swift
  /// for await entry in store.followHistory(of: "payments") {
  ///   print("\(entry.at): \(entry.change), by \(entry.program)")
  /// }
  /// ```
  ///
  /// The listener sleeps until there is something to read. The sequence ends only when its task is
  /// cancelled. While the store cannot be read, the listener tries again every two seconds. If
  /// another file takes the place of the store's, that file is read from its beginning, and its
  /// first entry has ``HistoryEntry/isAfterGap`` set.
  ///
  /// - Parameters:
  ///   - name: The breaker, or nil for all of them.
  ///   - id: The entry to continue after, such as the last one that an earlier listener received; 0
  ///     for everything that is kept. If nil, the sequence begins with what happens after this
  ///     call.
  /// - Returns: A sequence that you can iterate more than once; each iteration listens for itself.
  public func followHistory(of name: String? = nil, after id: Int64? = nil) -> HistoryFeed {
    var reader = HistoryReader(name: name, after: id)
    // The end of the history is looked up now, because it may have moved on by the first iteration.
    if id == nil { reader.begin(in: engine.storage) }
    return HistoryFeed(reader: reader, storage: engine.storage, owner: engine)
  }
}

/// The entries of a store's history, as they are written.
public struct HistoryFeed: AsyncSequence, Sendable {
  /// An entry of the history.
  public typealias Element = HistoryEntry

  /// A feed never fails: it continues when the store can be read again.
  public typealias Failure = Never

  let reader: HistoryReader
  let storage: any BreakerStorage

  /// Called when the store can no longer be read, and when it can be read again.
  var report: (@Sendable (StoreError?) -> Void)?

  /// Kept alive because the engine closes the storage when it is deallocated.
  let owner: Engine

  /// Also reports when the store can no longer be read, and when it can be read again.
  ///
  /// - Parameter report: A function that the listener's task calls under no lock: with the error when
  ///   the store cannot be read any more, and with nil when it can be read again.
  /// - Returns: A feed of the same entries.
  public func onTrouble(_ report: @escaping @Sendable (StoreError?) -> Void) -> HistoryFeed {
    var feed = self
    feed.report = report
    return feed
  }

  /// Creates a listener, which begins to listen now.
  public func makeAsyncIterator() -> Iterator {
    Iterator(reader: reader, listener: Listener(to: storage, of: owner), report: report)
  }

  /// One listener, which listens for as long as it exists.
  public struct Iterator: AsyncIteratorProtocol {
    private var reader: HistoryReader
    private let listener: Listener
    private let report: (@Sendable (StoreError?) -> Void)?
    private var isInTrouble = false
    private var entries: ArraySlice<HistoryEntry> = []

    init(
      reader: HistoryReader, listener: Listener, report: (@Sendable (StoreError?) -> Void)?
    ) {
      self.reader = reader
      self.listener = listener
      self.report = report
    }

    /// Waits for the next entry and returns it; nil once the task has been cancelled.
    public mutating func next() async -> HistoryEntry? {
      await next(isolation: #isolation)
    }

    /// Waits for the next entry and returns it; nil once the task has been cancelled.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async -> HistoryEntry? {
      while !Task.isCancelled {
        if let entry = entries.popFirst() { return entry }
        let wakeUp = listener.latestWakeUp
        do throws(StoreError) {
          entries = try reader.read(from: listener.storage)[...]
          if isInTrouble { report?(nil) }
          isInTrouble = false
          if entries.isEmpty { await listener.wait(after: wakeUp) }
        } catch {
          listener.letGo(after: error)
          if !isInTrouble { report?(error) }
          isInTrouble = true
          await listener.wait(after: wakeUp, atMost: Listener.pause)
        }
      }
      return nil
    }
  }
}

@available(*, unavailable)
extension HistoryFeed.Iterator: Sendable {}

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

/// One of the listeners of a store, for as long as it exists.
final class Listener: Sendable {
  let storage: any BreakerStorage
  private let owner: Engine

  /// How long to wait before a store that could not be read is read again.
  static let pause = Duration.seconds(2)

  init(to storage: any BreakerStorage, of owner: Engine) {
    self.storage = storage
    self.owner = owner
    storage.listeners.join()
  }

  deinit { storage.listeners.leave() }

  /// The number of the latest wake-up: get it before you read, and pass it to `wait`.
  var latestWakeUp: UInt64 { storage.listeners.latestWakeUp }

  /// Waits until there may be something to read, or the task is cancelled.
  ///
  /// If the system cannot watch the file, it waits for ``pause`` at most.
  func wait(after wakeUp: UInt64, atMost limit: Duration? = nil) async {
    let listeners = storage.listeners
    guard let limit = limit ?? (listeners.isBlind ? Self.pause : nil) else {
      await listeners.wait(after: wakeUp)
      return
    }
    let timer = owner.options.timer
    await withTaskGroup { group in
      group.addTask { await listeners.wait(after: wakeUp) }
      group.addTask {
        // Only cancellation ends the sleep early, and then the group is done anyway.
        do { try await timer.sleep(for: limit) } catch {}
      }
      await group.next()
      group.cancelAll()
    }
  }

  /// Closes the storage where opening it again may help.
  func letGo(after error: StoreError) {
    if error.mayEndByReopening { storage.close() }
  }
}
