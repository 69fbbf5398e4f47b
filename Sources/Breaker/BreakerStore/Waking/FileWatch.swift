internal import CHost
internal import Glibc
internal import Synchronization

/// A thread that the kernel wakes when a process has added to the history of a store.
final class FileWatch: Sendable {
  private let news: FileNews

  /// Raised to end the thread.
  private let ending: Int32
  private let notify: @Sendable () -> Void

  // Set by the initializer, before the watch can be ended; the thread itself never reads it.
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
    var lookout = Lookout(for: news)
    while true {
      var descriptors = [news.descriptor, ending].map {
        pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
      }
      _ = unsafe poll(&descriptors, 2, lookout.milliseconds)
      if descriptors[1].revents != 0 { return }
      if lookout.isTimeToLook() { notify() }
    }
  }
}

/// When a listener has to read the history of a store: after news, and also without any while nothing
/// can announce them.
package struct Lookout {
  private let news: FileNews

  /// When to look even without news, on the monotonic clock; nil if never.
  private var due: Int64?

  package init(for news: FileNews) {
    self.news = news
    if !news.isWatching { due = Patience.monotonicNanoseconds() }
  }

  /// The longest that a listener may wait for the descriptor, for `poll`.
  package var milliseconds: Int32 {
    guard let due else { return -1 }
    let rest = due - Patience.monotonicNanoseconds()
    return Int32(clamping: max(0, rest + 999_999) / 1_000_000)
  }

  /// Takes the news; never blocks.
  package mutating func isTimeToLook() -> Bool {
    var isTime = false
    while let what = news.read() {
      isTime = isTime || what.isTouched
      if what.isMoved || what.isGone { due = due ?? later }
    }
    guard let due, Patience.monotonicNanoseconds() >= due else { return isTime }
    if !news.isWatching { news.addWatch() }
    self.due = news.isWatching ? nil : later
    return true
  }

  /// Has the listener look again after a pause, such as when it could not read the store.
  package mutating func lookAgain() { due = due ?? later }

  private var later: Int64 { Patience.monotonicNanoseconds() + Self.pause }

  /// How long to wait before looking again after a file was replaced or the directory disappeared.
  ///
  /// By then the process that replaces the file has put all parts of it in place.
  private static let pause: Int64 = 1_000_000_000
}

/// A descriptor that the kernel makes readable when a process has added to the history of a store.
///
/// A process that commits an event touches the log afterwards. A watch for writes would wake others
/// too early, because they see a commit only once all of it is written. If the process is killed
/// before it can touch the log, the kernel closes its files, which is watched as well. The files
/// themselves are never opened here, because closing one would drop SQLite's locks
/// (sqlite.org/howtocorrupt.html, 2.2).
package final class FileNews: Sendable {
  /// Becomes readable when there may be news; only `read()` reads from it.
  package let descriptor: Int32
  private let directory: String
  private let file: String
  private let watch = Atomic<Int32>(-1)

  /// The changes of the files of the store.
  package struct News: Sendable {
    /// A process may have added to the history.
    package var isTouched = false

    /// A file was put in place or removed; some parts of the store may still be missing.
    package var isMoved = false

    /// The directory is no longer where it was.
    package var isGone = false
  }

  /// Begins to watch the directory if it exists; nil if the system has no descriptor left.
  package init?(path: String) {
    (directory, file) = StorePath.split(path)
    descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
    guard descriptor >= 0 else { return nil }
    addWatch()
  }

  /// Whether the directory exists and is being watched.
  package var isWatching: Bool { watch.load(ordering: .relaxed) >= 0 }

  /// Watches the directory that is at the path now.
  package func addWatch() {
    let code = unsafe inotify_add_watch(descriptor, directory, Self.events)
    watch.store(code, ordering: .relaxed)
  }

  /// Closes the descriptor; in the child of a fork, the parent keeps its own.
  package func end() { close(descriptor) }

  private static let touched = UInt32(IN_ATTRIB | IN_CLOSE_WRITE)
  private static let moved = UInt32(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
  private static var gone: UInt32 {
    UInt32(IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)
  }
  private static let events = touched | moved | UInt32(IN_DELETE_SELF | IN_MOVE_SELF)
}

extension FileNews {
  /// Reads the news; never blocks, and returns nil if there is nothing to read.
  ///
  /// A directory that is gone is no longer watched: the caller calls `addWatch()` when it wants to.
  package func read() -> News? {
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
      count = max(0, unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count))
    }
    if bytes.isEmpty { return nil }
    let news = news(in: bytes[...])
    if news.isGone, isWatching {
      inotify_rm_watch(descriptor, watch.load(ordering: .relaxed))
      watch.store(-1, ordering: .relaxed)
    }
    return news
  }

  private func news(in bytes: ArraySlice<UInt8>) -> News {
    var news = News()
    var rest = bytes
    let head = MemoryLayout<inotify_event>.size
    while rest.count >= head {
      let event = unsafe rest.withUnsafeBytes { unsafe $0.loadUnaligned(as: inotify_event.self) }
      let name = rest.dropFirst(head).prefix(Int(event.len)).prefix { $0 != 0 }
      rest = rest.dropFirst(head + Int(event.len))
      // The queue overflowed, and an event that was dropped may have been relevant.
      if event.mask & UInt32(IN_Q_OVERFLOW) != 0 { news.isTouched = true }
      if event.wd == watch.load(ordering: .relaxed), event.mask & Self.gone != 0 {
        news.isGone = true
      }
      guard isOfStore(name) else { continue }
      if event.mask & Self.touched != 0 { news.isTouched = true }
      if event.mask & Self.moved != 0 { news.isMoved = true }
    }
    return news
  }

  /// The directory may contain many files that do not belong to the store.
  private func isOfStore(_ name: ArraySlice<UInt8>) -> Bool {
    guard name.starts(with: file.utf8) else { return false }
    let suffix = name.dropFirst(file.utf8.count)
    return suffix.isEmpty || suffix.elementsEqual(StoreFile.logSuffix.utf8)
  }
}
