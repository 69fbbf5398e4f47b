internal import CHost
internal import Glibc

/// A mutex that ThreadSanitizer understands and that fork hooks can lock and unlock.
@safe package final class Lock: Sendable {
  // The pointer never changes, and a mutex is made for several threads.
  nonisolated(unsafe) let mutex: UnsafeMutablePointer<pthread_mutex_t>

  package init() {
    unsafe mutex = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  package func lock() { unsafe pthread_mutex_lock(mutex) }

  /// Takes the lock if it is free.
  package func tryLock() -> Bool { unsafe pthread_mutex_trylock(mutex) == 0 }

  /// Takes the lock, or gives up at an instant of the monotonic clock, or when all waits of this
  /// thread end; false if it gave up.
  package func lock(until nanoseconds: Int64) -> Bool {
    unsafe sb_mutex_lock_until(mutex, nanoseconds) == 0
  }

  package func unlock() { unsafe pthread_mutex_unlock(mutex) }

  package func withLock<Result, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lock()
    defer { unlock() }
    return try body()
  }
}

/// A value that is only ever touched under its lock.
///
/// ThreadSanitizer understands this lock and not Swift's `Mutex`, and a fork can hold it. Unchecked
/// because the compiler does not know that the lock guards the value.
package final class Guarded<Value>: @unchecked Sendable {
  private let lock = Lock()
  private var value: Value

  package init(_ value: sending Value) { self.value = value }

  package func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }

  /// Runs the body if the lock is free; returns nil without waiting if it is held.
  package func withLockIfFree<Result>(_ body: (inout Value) -> Result) -> Result? {
    guard lock.tryLock() else { return nil }
    defer { lock.unlock() }
    return body(&value)
  }

  /// Takes the lock before a fork, so that the value is at rest in both processes, and prepares it.
  package func willFork(_ prepare: (inout Value) -> Void = { _ in }) {
    lock.lock()
    prepare(&value)
  }

  /// Releases the lock after a fork, in the parent and in the child.
  package func didFork(_ restore: (inout Value) -> Void = { _ in }) {
    restore(&value)
    lock.unlock()
  }
}

/// Lets one thread sleep until another one wakes it; both must hold the same lock.
@safe package final class ThreadWaker {
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  package init() {
    unsafe condition = .allocate(capacity: 1)
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    // No user can set this clock and so prolong a wait.
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(condition, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe condition.deallocate()
  }

  package func wake() { unsafe pthread_cond_signal(condition) }

  /// Releases the lock while asleep; false if an instant of the monotonic clock has come.
  package func wait(_ lock: Lock, until nanoseconds: Int64?) -> Bool {
    guard let nanoseconds else {
      unsafe pthread_cond_wait(condition, lock.mutex)
      return true
    }
    var deadline = timespec(
      tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    return unsafe pthread_cond_timedwait(condition, lock.mutex, &deadline) != ETIMEDOUT
  }
}

/// A thread that belongs to the library and not to the program.
package enum SystemThread {
  /// Starts a thread that the caller must join; nil if the system has none left.
  ///
  /// The name, of at most 15 bytes, is for people who look at the threads of a process.
  static func start(
    _ name: StaticString, _ body: @escaping @Sendable () -> Void
  ) -> pthread_t? {
    // The program's own threads handle its signals. A new thread inherits the signal mask.
    var all = sigset_t()
    var usual = sigset_t()
    unsafe sigfillset(&all)
    unsafe pthread_sigmask(SIG_SETMASK, &all, &usual)
    defer { unsafe pthread_sigmask(SIG_SETMASK, &usual, nil) }
    let task = unsafe Unmanaged.passRetained(
      Task {
        unsafe sb_name_thread(name.description)
        body()
      })
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { context in
        guard let context = unsafe context else { return nil }
        unsafe Unmanaged<Task>.fromOpaque(context).takeRetainedValue().body()
        return nil
      }, task.toOpaque())
    if code != 0 { unsafe task.release() }
    return code == 0 ? thread : nil
  }

  /// Starts a thread that is never joined; false if the system has none left.
  package static func startDetached(
    _ name: StaticString, _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    guard let thread = start(name, body) else { return false }
    pthread_detach(thread)
    return true
  }

  private final class Task: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
}
