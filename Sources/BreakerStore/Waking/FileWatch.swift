internal import CHost
internal import Glibc

/// A thread that the kernel wakes when a process has added to the history of a store.
final class FileWatch: Sendable {
  private let news: FileNews

  /// Raised to end the thread.
  private let ending: Int32
  private let notify: @Sendable () -> Void

  // Set by the initializer, before anybody can end it; the thread itself never reads it.
  private nonisolated(unsafe) var thread = pthread_t()

  /// Starts to watch; nil if the system has no descriptor or thread left for it.
  init?(path: String, notify: @escaping @Sendable () -> Void) {
    guard let news = FileNews(path: path) else { return nil }
    self.news = news
    self.notify = notify
    ending = sb_flag()
    guard ending >= 0, let started = SystemThread.start("breaker-watch", { [self] in run() }) else {
      abandon()
      return nil
    }
    unsafe thread = started
  }

  /// Whether the directory exists and is being watched.
  var isWatching: Bool { news.isWatching }

  /// Ends the thread, and waits until it has ended.
  func end() {
    _ = sb_flag_raise(ending)
    unsafe pthread_join(thread, nil)
    abandon()
  }

  /// Closes the descriptors; also called in the child of a fork, where no such thread exists.
  func abandon() {
    news.end()
    if ending >= 0 { close(ending) }
  }
}

/// The work of the thread.
extension FileWatch {
  private func run() {
    // When to look even without a notification, on the monotonic clock.
    var deadline: Int64? = isWatching ? nil : later
    while true {
      switch wait(until: deadline) {
      case .end:
        return
      case .time:
        let wasWatching = isWatching
        if !wasWatching { news.addWatch() }
        deadline = isWatching ? nil : later
        notify()
      case .news(let news):
        if news.isGone || news.isMoved { deadline = deadline ?? later }
        if news.isTouched { notify() }
      }
    }
  }

  private var later: Int64 { Patience.monotonicNanoseconds() + FileNews.pause }

  private enum Turn {
    case end
    case time
    case news(FileNews.News)
  }

  private func wait(until deadline: Int64?) -> Turn {
    var descriptors = [news.descriptor, ending].map {
      pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
    }
    var milliseconds: Int32 = -1
    if let deadline {
      let rest = deadline - Patience.monotonicNanoseconds()
      milliseconds = Int32(clamping: max(0, rest + 999_999) / 1_000_000)
    }
    let ready = unsafe poll(&descriptors, 2, milliseconds)
    if descriptors[1].revents != 0 { return .end }
    return ready == 0 ? .time : .news(news.read() ?? FileNews.News())
  }
}
