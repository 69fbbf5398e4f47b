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
    // The end of the history is looked up now: at the first iteration it may have moved on.
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

  /// What to tell of a store that cannot be read.
  var report: (@Sendable (StoreError?) -> Void)?

  /// Kept alive because the engine closes the storage when it is deallocated.
  let owner: Engine

  /// Also says when the store cannot be read, because it was deleted or fails.
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
