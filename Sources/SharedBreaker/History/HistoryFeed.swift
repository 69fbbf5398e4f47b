internal import BreakerStore

extension SharedStore {
  /// What happens from now on in all processes, each entry once and in order, without an end.
  ///
  /// A listener sleeps until there is something to read. It ends when its task is cancelled, and
  /// goes on by itself after a time in which the store could not be used. A file that takes the place
  /// of the store's is read from its beginning.
  ///
  /// - Parameters:
  ///   - name: The breaker, or nil for all of them.
  ///   - id: The entry to go on after, such as the last one that an earlier listener has got; 0 for
  ///     everything that is kept. If nil, it begins with what happens after this call.
  /// - Returns: A sequence to be iterated; each iteration listens for itself.
  public func followHistory(of name: String? = nil, after id: Int64? = nil) -> HistoryFeed {
    var reader = HistoryReader(name: name, after: id)
    // Where "now" is has to be known now, or what happens before the first look would be left out.
    if id == nil { reader.begin(in: engine.storage) }
    return HistoryFeed(reader: reader, storage: engine.storage, owner: engine)
  }
}

/// What happens in a store, as it happens.
public struct HistoryFeed: AsyncSequence, Sendable {
  /// What happened.
  public typealias Element = HistoryEntry

  /// A feed never fails: it goes on when the store can be used again.
  public typealias Failure = Never

  let reader: HistoryReader
  let storage: any BreakerStorage

  /// Kept, for its end would close the storage.
  let owner: Engine

  /// Begins to listen.
  public func makeAsyncIterator() -> Iterator {
    Iterator(reader: reader, listening: Listening(to: storage, of: owner))
  }

  /// One listener, which listens as long as it is kept.
  public struct Iterator: AsyncIteratorProtocol {
    private var reader: HistoryReader
    private let listening: Listening
    private var entries: ArraySlice<HistoryEntry> = []

    init(reader: HistoryReader, listening: Listening) {
      self.reader = reader
      self.listening = listening
    }

    /// The next entry, as soon as there is one; nil if the task was cancelled.
    public mutating func next() async -> HistoryEntry? {
      await next(isolation: #isolation)
    }

    /// The next entry, as soon as there is one; nil if the task was cancelled.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async -> HistoryEntry? {
      while !Task.isCancelled {
        if let entry = entries.popFirst() { return entry }
        let call = listening.currentCall
        do throws(StoreError) {
          entries = try reader.read(from: listening.storage)[...]
          if entries.isEmpty { await listening.wait(after: call) }
        } catch {
          listening.letGo(after: error)
          await listening.wait(after: call, atMost: Listening.pause)
        }
      }
      return nil
    }
  }
}

@available(*, unavailable)
extension HistoryFeed.Iterator: Sendable {}
