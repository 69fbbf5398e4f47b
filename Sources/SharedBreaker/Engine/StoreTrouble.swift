internal import BreakerStore
internal import Glibc

/// What a process prints about its store if nobody else would hear of it.
enum StoreTrouble {
  /// Whether the environment asks for silence.
  static var isQuietByEnvironment: Bool {
    guard let text = unsafe getenv("SHARED_BREAKER_QUIET") else { return false }
    return unsafe text.pointee != 0
  }

  /// Prints the loss of the store, and its return, on standard error in one line each.
  ///
  /// The caller holds no lock (rule of order 3): standard error may be a pipe that nobody reads.
  static func print(_ event: StoreEvent, program: String) {
    switch event {
    case .unavailable, .available: break
    case .notDurable, .transition, .transitionAlone, .rejected, .policyDiffers, .notShared,
      .hookGaveUp:
      return
    }
    let line = Array("shared-breaker: \(program) (\(getpid())): \(event)\n".utf8)
    write(line)
  }

  /// Writes a line if standard error takes it now.
  ///
  /// A pipe that is full would block the call, and one that nobody reads any more would end the
  /// process by SIGPIPE. So neither gets the line.
  private static func write(_ line: [UInt8]) {
    var entry = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
    guard unsafe poll(&entry, 1, 0) == 1, entry.revents == Int16(POLLOUT) else { return }
    _ = unsafe Glibc.write(STDERR_FILENO, line, min(line.count, Int(PIPE_BUF)))
  }
}
