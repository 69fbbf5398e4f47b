internal import BreakerStore
internal import CSharedBreaker
internal import SharedBreaker

/// The news of a store that a C program listens to.
///
/// Unchecked because the compiler does not know that the lock guards the lookout.
final class OpenNews: @unchecked Sendable {
  private let store: ClosableStore
  private let news: FileNews
  private let forkDepth = ForkGuard.depth

  /// Guards the lookout, and keeps two threads from reading at once.
  private let lock = Lock()
  private var lookout: Lookout

  init?(of store: ClosableStore, at path: String) {
    guard let news = FileNews(path: path) else { return nil }
    self.news = news
    self.store = store
    lookout = Lookout(for: news)
  }

  deinit { news.end() }

  /// The descriptor to poll; nil in a child of the process that opened it.
  var descriptor: Int32? { forkDepth == ForkGuard.depth ? news.descriptor : nil }

  func take() throws(Failure) -> sb_code {
    _ = try store.usable
    guard descriptor != nil else {
      throw Failure(SB_ERR_FORKED, "the descriptor is the parent's: open the news in the child too")
    }
    return lock.withLock { lookout.isTimeToLook() ? SB_OK : SB_NOTHING }
  }
}

@c @implementation
package func sb_news_open(
  _ store: OpaquePointer?, _ news: UnsafeMutablePointer<OpaquePointer?>?
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    guard let news = unsafe news else { throw .argument("there is no place for the news") }
    unsafe news.pointee = nil
    let opened = try unsafe ClosableStore.at(store)
    guard let made = OpenNews(of: opened, at: try opened.usable.path) else {
      throw Failure(SB_ERR_RESOURCES, "the system has no inotify descriptor left")
    }
    unsafe news.pointee = Handle.make(made, .news)
    return SB_OK
  }
}

@c @implementation
package func sb_news_descriptor(_ news: OpaquePointer?) -> CInt {
  do throws(Failure) {
    return try unsafe Handle.object(OpenNews.self, at: news, .news).descriptor ?? -1
  } catch {
    _ = unsafe told(error, to: ErrorPlace.at(news))
    return -1
  }
}

@c @implementation
package func sb_news_take(_ news: OpaquePointer?) -> CInt {
  unsafe answer(news) { () throws(Failure) in
    try unsafe Handle.object(OpenNews.self, at: news, .news).take()
  }
}

@c @implementation
package func sb_news_free(_ news: OpaquePointer?) {
  _ = unsafe answer(news) { () throws(Failure) in
    unsafe Handle.free(news, .news)
    return SB_OK
  }
}
