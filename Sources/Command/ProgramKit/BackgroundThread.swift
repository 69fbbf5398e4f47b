internal import Glibc

/// A thread of its own for work that blocks.
@safe public final class BackgroundThread: Sendable {
  private let thread: pthread_t

  /// Starts a thread; nil if the system has none left.
  public init?(_ body: @escaping @Sendable () -> Void) {
    let work = unsafe Unmanaged.passRetained(Work(body))
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { context in
        guard let context = unsafe context else { return nil }
        unsafe Unmanaged<Work>.fromOpaque(context).takeRetainedValue().body()
        return nil
      }, work.toOpaque())
    guard code == 0 else {
      unsafe work.release()
      return nil
    }
    self.thread = thread
  }

  /// Waits until the work is done; call it at most once.
  public func join() { pthread_join(thread, nil) }

  private final class Work: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
}

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

  /// Wakes the thread, as a pipe that is full already does.
  public func wake() { _ = unsafe write(writing, [1], 1) }

  /// Whether the pipe was woken since it was last emptied.
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
