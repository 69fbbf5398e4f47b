import Glibc
import SharedBreaker
import Synchronization

/// What happens in a store from now on, for a thread that waits for other things at the same time.
final class News: Sendable {
  private let mail: Mail
  private let task: Task<Void, Never>

  /// Begins to listen: what happens after this is in the news.
  ///
  /// Nil if no descriptor is left.
  init?(of store: SharedStore, name: String? = nil) {
    guard let mail = Mail() else { return nil }
    self.mail = mail
    let feed = store.followHistory(of: name)
    task = Task.detached {
      for await entry in feed { mail.put(entry) }
    }
  }

  /// A descriptor that can be read from when there is news.
  var descriptor: Int32 { mail.reading }

  /// What has happened since the last time, oldest first.
  func take() -> [HistoryEntry] { mail.take() }

  /// Stops listening.
  ///
  /// It is not waited for: this thread may be the one that the listener needs to come to its end.
  func end() { task.cancel() }
}

/// Entries that one thread puts down and another one takes, with a pipe to wake it.
private final class Mail: Sendable {
  private let pipe: WakePipe
  private let entries = Mutex<[HistoryEntry]>([])

  init?() {
    guard let pipe = WakePipe() else { return nil }
    self.pipe = pipe
  }

  deinit { pipe.close() }

  var reading: Int32 { pipe.reading }

  func put(_ entry: HistoryEntry) {
    entries.withLock { $0.append(entry) }
    pipe.wake()
  }

  func take() -> [HistoryEntry] {
    // Emptied first: what is put down after that is either taken here or wakes once more.
    pipe.empty()
    return entries.withLock { entries in
      defer { entries = [] }
      return entries
    }
  }
}
