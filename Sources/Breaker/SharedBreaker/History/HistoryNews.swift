internal import BreakerStore

/// The entries that are added to a store's history, for a thread that also waits for other things.
///
/// Neither a task nor a thread listens, so news also reach a process that can have neither, as where
/// `/proc` is empty: there the pool that runs Swift's tasks may end its process.
@_spi(Command) public final class HistoryNews {
  private let news: FileNews
  private let owner: Engine
  private var lookout: Lookout
  private var reader: HistoryReader
  private var isInTrouble = false

  /// Begins to listen for new entries of a breaker, or of all; nil if no descriptor is left.
  @_spi(Command) public init?(of store: SharedStore, name: String? = nil) {
    guard let news = FileNews(path: store.path) else { return nil }
    self.news = news
    owner = store.engine
    lookout = Lookout(for: news)
    reader = HistoryReader(name: name, after: nil)
    reader.begin(in: owner.storage)
  }

  deinit { news.end() }

  /// A descriptor that is readable when there may be news.
  @_spi(Command) public var descriptor: Int32 { news.descriptor }

  /// The longest that a thread may wait for the descriptor before it takes the news; nil for ever.
  @_spi(Command) public var longestWait: Duration? {
    let milliseconds = lookout.milliseconds
    return milliseconds < 0 ? nil : .milliseconds(milliseconds)
  }

  /// The answer of ``take()``.
  @_spi(Command) public struct Delivery: Sendable {
    /// The new entries, oldest first.
    @_spi(Command) public var entries: [HistoryEntry] = []

    /// Whether the store has become unreadable or readable; nil if neither.
    @_spi(Command) public var turn: Turn?
  }

  /// A turn of the store, so that no reader mistakes silence for calm.
  @_spi(Command) public enum Turn: Sendable {
    /// The store cannot be read any more; the listener tries again once a second.
    case unreadable(StoreError)

    /// The store can be read again.
    case readable
  }

  /// Returns the news since the last call; never waits for any.
  @_spi(Command) public func take() -> Delivery {
    var delivery = Delivery()
    guard lookout.isTimeToLook() else { return delivery }
    do throws(StoreError) {
      while case let entries = try reader.read(from: owner.storage), !entries.isEmpty {
        delivery.entries += entries
      }
      if isInTrouble { delivery.turn = .readable }
      isInTrouble = false
    } catch {
      if error.mayEndByReopening { owner.storage.close() }
      if !isInTrouble { delivery.turn = .unreadable(error) }
      isInTrouble = true
      lookout.lookAgain()
    }
    return delivery
  }
}
