import Glibc

/// A pipe that wakes whoever waits for it, and never makes anybody else wait.
struct WakePipe: Sendable {
  let reading: Int32
  let writing: Int32

  /// Nil if no descriptor is left.
  init?() {
    var ends: [Int32] = [-1, -1]
    guard unsafe pipe(&ends) == 0 else { return nil }
    (reading, writing) = (ends[0], ends[1])
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
  }

  /// A pipe that is full wakes as well as one with a byte more.
  func wake() { _ = unsafe write(writing, [1], 1) }

  /// Takes out all that is in it.
  func empty() {
    var bytes = [UInt8](repeating: 0, count: 64)
    while unsafe read(reading, &bytes, bytes.count) > 0 {}
  }

  func close() {
    Glibc.close(reading)
    Glibc.close(writing)
  }
}
