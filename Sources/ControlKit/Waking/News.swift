import Glibc
import ProgramKit
import SharedBreaker
import Synchronization

/// What happens in a store from now on, for a thread that also waits for other things.
final class News: Sendable {
  private let mail: Mail
  private let task: Task<Void, Never>

  /// Begins to listen for everything that happens after this; nil if no descriptor is left.
  init?(of store: SharedStore, name: String? = nil) {
    guard let mail = Mail() else { return nil }
    self.mail = mail
    let feed = store.followHistory(of: name)
    task = Task.detached {
      for await entry in feed { mail.put(entry) }
    }
  }

  /// A descriptor that is readable when there is news.
  var descriptor: Int32 { mail.reading }

  /// What has happened since the last call, oldest first.
  func take() -> [HistoryEntry] { mail.take() }

  /// Stops listening.
  ///
  /// This does not wait for the listener, which may need this very thread to end.
  func end() { task.cancel() }
}

/// Entries that one thread adds and another one takes, with a pipe to wake it.
private final class Mail: Sendable {
  private let pipe: WakePipe
  private let entries = Mutex<[HistoryEntry]>([])

  init?() {
    guard let pipe = WakePipe() else { return nil }
    self.pipe = pipe
  }

  var reading: Int32 { pipe.reading }

  func put(_ entry: HistoryEntry) {
    entries.withLock { $0.append(entry) }
    pipe.wake()
  }

  func take() -> [HistoryEntry] {
    // Empty the pipe first: an entry that is added after that is taken here or wakes again.
    pipe.empty()
    return entries.withLock { entries in
      defer { entries = [] }
      return entries
    }
  }
}
