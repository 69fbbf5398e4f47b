import Glibc
import ProgramKit
import SharedBreaker
import Synchronization

/// The entries that are added to a store's history, for a thread that also waits for other things.
final class News: Sendable {
  private let mail: Mail
  private let task: Task<Void, Never>

  /// Begins to listen for new entries; nil if no descriptor is left.
  init?(of store: SharedStore, name: String? = nil) {
    guard let mail = Mail() else { return nil }
    self.mail = mail
    let feed = store.followHistory(of: name).onTrouble { trouble in
      mail.put { $0.troubles.append(trouble) }
    }
    task = Task.detached {
      for await entry in feed { mail.put { $0.entries.append(entry) } }
    }
  }

  /// A descriptor that is readable when there is news.
  var descriptor: Int32 { mail.reading }

  /// The answer of ``take()``.
  struct Delivery: Sendable {
    /// The new entries, oldest first.
    var entries: [HistoryEntry] = []

    /// An error for each time that the store became unreadable, and nil for each time that it could
    /// be read again.
    var troubles: [StoreError?] = []
  }

  /// Returns the news since the last call.
  func take() -> Delivery { mail.take() }

  /// Stops listening.
  ///
  /// This does not wait for the listener, which may need this thread to end.
  func end() { task.cancel() }
}

extension CommandContext {
  /// Says that the store cannot be read, or can be read again, so that no reader mistakes silence
  /// for calm.
  func tell(_ troubles: [StoreError?]) {
    for trouble in troubles {
      complain(trouble.map { "\($0): waiting for the store" } ?? "the store can be read again")
    }
  }
}

/// News that one thread adds and another one takes, with a pipe to wake it.
private final class Mail: Sendable {
  private let pipe: WakePipe
  private let news = Mutex(News.Delivery())

  init?() {
    guard let pipe = WakePipe() else { return nil }
    self.pipe = pipe
  }

  var reading: Int32 { pipe.reading }

  func put(_ add: (inout News.Delivery) -> Void) {
    news.withLock { add(&$0) }
    pipe.wake()
  }

  func take() -> News.Delivery {
    // Empty the pipe first: whatever is added after that is either taken here or wakes again.
    pipe.empty()
    return news.withLock { news in
      defer { news = News.Delivery() }
      return news
    }
  }
}

/// Waits for the first of several descriptors without polling.
struct DescriptorPoll {
  /// The result of a wait.
  struct End: Sendable {
    /// The descriptors that are readable.
    var ready: Set<Int32> = []

    /// Whether the output has no reader any more.
    var isOutputClosed = false
  }

  /// The descriptors to wait for.
  var descriptors: [Int32]

  /// The descriptor of the output; nil if its end does not matter.
  var output: Int32?

  /// The longest that a wait relies on a timer, because timers stop while the host sleeps.
  private static let longest = Duration.seconds(60)

  /// Waits until a descriptor is readable, the output is closed, or the time is over.
  ///
  /// The wait can end early without a result.
  func wait(atMost time: Duration? = nil) -> End {
    var entries = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    // poll reports a pipe without a reader even if no event is asked for.
    if let output { entries.append(pollfd(fd: output, events: 0, revents: 0)) }
    let milliseconds = time.map { SpokenDuration.milliseconds(min($0, Self.longest)) }
    let count = unsafe poll(
      &entries, nfds_t(entries.count), milliseconds.map { Int32($0) } ?? -1)
    var end = End()
    guard count > 0 else { return end }
    for entry in entries where entry.revents != 0 {
      if entry.events == 0 { end.isOutputClosed = true } else { end.ready.insert(entry.fd) }
    }
    return end
  }
}
