internal import Glibc
internal import TestShim

/// Threads of this process, for things that have to happen at the same time.
@safe package final class Threads {
  private var threads: [pthread_t] = []

  package init() {}

  /// Whether ThreadSanitizer checks the threads of this process.
  package static var areWatched: Bool { ts_threads_are_watched() != 0 }

  /// Whether the calling thread keeps a robust lock.
  package static var currentKeepsRobustLocks: Bool { ts_keeps_robust_locks() != 0 }

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

/// The threads of this process, as the kernel lists them.
package enum ProcessThreads {
  /// The number of threads whose names begin with a text.
  package static func count(named name: String = "") -> Int {
    guard let directory = unsafe opendir("/proc/self/task") else { return 0 }
    defer { unsafe closedir(directory) }
    var count = 0
    while let entry = unsafe readdir(directory) {
      let thread = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if let its = Self.name(of: thread), its.hasPrefix(name) { count += 1 }
    }
    return count
  }

  /// The name of a thread; nil if it has ended meanwhile.
  private static func name(of thread: String) -> String? {
    let descriptor = unsafe open("/proc/self/task/\(thread)/comm", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
      count = max(0, unsafe read(descriptor, buffer.baseAddress, buffer.count))
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
