import Glibc

/// A pipe that wakes the thread that waits for it, and never blocks the one that wakes.
struct WakePipe: Sendable {
  let reading: Int32
  let writing: Int32

  /// Creates the pipe; nil if no descriptor is left.
  init?() {
    var ends: [Int32] = [-1, -1]
    guard unsafe pipe(&ends) == 0 else { return nil }
    (reading, writing) = (ends[0], ends[1])
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
  }

  /// Wakes the waiting thread; a full pipe does that without another byte.
  func wake() { _ = unsafe write(writing, [1], 1) }

  /// Removes all bytes from the pipe.
  func empty() {
    var bytes = [UInt8](repeating: 0, count: 64)
    while unsafe read(reading, &bytes, bytes.count) > 0 {}
  }

  func close() {
    Glibc.close(reading)
    Glibc.close(writing)
  }
}
