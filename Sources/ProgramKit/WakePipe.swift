internal import Glibc

/// A pipe that wakes a thread that sleeps in `poll`; waking never blocks.
public final class WakePipe: Sendable {
  /// Polls as readable while there is something to wake for.
  public let reading: Int32

  /// Where a signal handler writes its byte.
  public let writing: Int32

  /// Creates the pipe; nil if no descriptor is left.
  public init?() {
    var ends: [Int32] = [-1, -1]
    guard unsafe pipe(&ends) == 0 else { return nil }
    (reading, writing) = (ends[0], ends[1])
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
  }

  deinit {
    close(reading)
    close(writing)
  }

  /// Wakes the thread; a full pipe does that without another byte.
  public func wake() { _ = unsafe write(writing, [1], 1) }

  /// Whether it was woken since it was last emptied.
  public var isRaised: Bool {
    var entry = pollfd(fd: reading, events: Int16(POLLIN), revents: 0)
    return unsafe poll(&entry, 1, 0) > 0
  }

  /// Removes all bytes from the pipe.
  public func empty() {
    var bytes = [UInt8](repeating: 0, count: 64)
    while unsafe read(reading, &bytes, bytes.count) > 0 {}
  }
}
