internal import Glibc
internal import TestShim

/// Threads of this process, for things that have to happen at the same time.
@safe package final class Threads {
  private var threads: [pthread_t] = []

  package init() {}

  /// Whether ThreadSanitizer checks the threads of this process.
  package static var areWatched: Bool { ts_threads_are_watched() != 0 }

  package func start(_ body: @escaping @Sendable () -> Void) {
    let box = unsafe Unmanaged.passRetained(Box(body))
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { context in
        guard let context = unsafe context else { return nil }
        unsafe Unmanaged<Box>.fromOpaque(context).takeRetainedValue().body()
        return nil
      }, box.toOpaque())
    precondition(code == 0, "a thread could not be started")
    threads.append(thread)
  }

  /// Waits for all threads that were started.
  package func join() {
    for thread in threads { pthread_join(thread, nil) }
    threads = []
  }

  /// Runs a body in several threads at the same time, and waits for all of them.
  package static func run(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let threads = Threads()
    for index in 0..<count { threads.start { body(index) } }
    threads.join()
  }

  private final class Box {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
}
