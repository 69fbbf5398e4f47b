import Glibc
import SharedBreaker

extension Options {
  /// Creates the store; with the option `descriptors=N`, while only N more files may be opened.
  func makeStore() -> SharedStore {
    guard let descriptors else { return SharedStore(path: path, options: store) }
    let made = leaving(descriptors) {
      let made = SharedStore(path: path, options: store)
      // This may fail because descriptors are missing. Later attempts have enough of them.
      _ = try? made.connect()
      return made
    }
    _ = try? made.connect()
    return made
  }

  private func leaving<Result>(_ count: Int, _ body: () -> Result) -> Result {
    let files = __rlimit_resource_t(7)
    var limit = rlimit()
    unsafe getrlimit(files, &limit)
    let usual = limit.rlim_cur
    let lowestFree = dup(0)
    close(lowestFree)
    limit.rlim_cur = rlim_t(Int(lowestFree) + count)
    unsafe setrlimit(files, &limit)
    defer {
      limit.rlim_cur = usual
      unsafe setrlimit(files, &limit)
    }
    return body()
  }
}
