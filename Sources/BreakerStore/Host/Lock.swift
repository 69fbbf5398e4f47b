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
