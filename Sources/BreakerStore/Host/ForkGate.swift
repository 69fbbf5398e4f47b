internal import Synchronization

/// Keeps forks and examinations apart, because a child would inherit the files that one has open.
package final class ForkGate: Sendable {
  /// An examination passes through here, and a fork holds it while it waits for the lock.
  ///
  /// The lock alone would mostly go to the thread that has just released it, however long another
  /// one waits.
  private let entrance = Lock()
  private let lock = Lock()
  private let isWaiting = Atomic(false)

  package init() {}

  /// Whether a fork is waiting for an examination to end.
  var isForkWaiting: Bool { isWaiting.load(ordering: .relaxed) }

  /// Runs a body during which this process does not fork.
  func shut<Result>(
    during body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    entrance.lock()
    entrance.unlock()
    return try lock.withLock(body)
  }

  package func willFork() {
    entrance.lock()
    isWaiting.store(true, ordering: .relaxed)
    lock.lock()
  }

  package func didFork() {
    isWaiting.store(false, ordering: .relaxed)
    lock.unlock()
    entrance.unlock()
  }
}
