internal import Glibc

/// Lets one thread sleep until another one wakes it; both must hold the same lock.
@safe package final class ThreadWaker {
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  package init() {
    unsafe condition = .allocate(capacity: 1)
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    // Nobody can set this clock, so nobody can prolong a wait.
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
