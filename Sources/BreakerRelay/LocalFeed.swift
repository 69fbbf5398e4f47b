internal import ProgramKit
internal import SharedBreaker
internal import Synchronization

/// What has happened to the breakers of this host since the relay last looked.
final class LocalFeed: Sendable {
  struct News: Sendable {
    /// The breakers that have changed, each with the latest change that may concern the fleet.
    var changes: [String: LocalChange?] = [:]

    /// Whether changes were missed, so that all breakers have to be looked at.
    var isIncomplete = false
  }

  /// Raised when there is news.
  let wakeup: WakePipe
  private let news = Mutex(News())

  /// The most breakers that are remembered; more are looked at all together.
  private static let room = 20_000

  init(wakeup: WakePipe) { self.wakeup = wakeup }

  /// Follows the history of a store until the task is cancelled.
  func follow(_ store: SharedStore) -> Task<Void, Never> {
    let feed = store.followHistory()
    return Task.detached { for await entry in feed { self.take(entry) } }
  }

  private func take(_ entry: HistoryEntry) {
    news.withLock { news in
      if entry.isAfterGap { news.isIncomplete = true }
      if let change = LocalChange(entry) {
        news.changes[entry.name] = change
      } else if news.changes[entry.name] == nil {
        news.changes[entry.name] = .some(nil)
      }
      if news.changes.count > Self.room { news = News(isIncomplete: true) }
    }
    wakeup.wake()
  }

  /// The news since the last call.
  func take() -> News {
    wakeup.empty()
    return news.withLock { news in
      defer { news = News() }
      return news
    }
  }
}
