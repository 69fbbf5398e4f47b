internal import Synchronization

/// Keeps forks of this process and examinations apart: a child would have what one has open.
package final class ForkGate: Sendable {
  private let lock = Lock()
  private let isWaiting = Atomic(false)

  package init() {}

  /// Whether a fork waits for an examination to end.
  var isForkWaiting: Bool { isWaiting.load(ordering: .relaxed) }

  /// Runs a body during which this process does not fork.
  func shut<Result>(
    during body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    try lock.withLock(body)
  }

  package func willFork() {
    isWaiting.store(true, ordering: .relaxed)
    lock.lock()
  }

  package func didFork() {
    isWaiting.store(false, ordering: .relaxed)
    lock.unlock()
  }
}
