internal import BreakerStore

/// State under a lock that belongs to one process: the child of a fork begins with its own.
///
/// The child leaves its parent's state as it is and never frees it, because freeing it could run
/// code of the program in the middle of a fork. Another thread may also have been asleep on a
/// `ThreadWaker` of the state, which cannot be used again then.
///
/// Unchecked because the compiler does not know that the lock guards the state. `Guarded` cannot
/// hold it, because a thread sleeps on the lock while the state changes.
@safe final class PerProcess<State: AnyObject & SendableMetatype>: @unchecked Sendable {
  let lock = Lock()
  private let make: @Sendable () -> State
  private var state: State
  private var forkGuard: ForkGuard?

  init(_ make: @escaping @Sendable () -> State) {
    self.make = make
    state = make()
    forkGuard = ForkGuard(
      of: self, before: { [unowned self] in lock.lock() },
      after: { [unowned self] isChild in
        if isChild { begin() }
        lock.unlock()
      })
  }

  deinit { forkGuard?.end() }

  func withLock<Result>(_ body: (State) -> Result) -> Result {
    lock.withLock { body(state) }
  }

  private func begin() {
    unsafe _ = Unmanaged.passRetained(state)
    state = make()
  }
}
