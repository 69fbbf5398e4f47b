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
