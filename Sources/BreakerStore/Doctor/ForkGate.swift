internal import Synchronization

/// Keeps forks of this process and examinations apart: a child would have what one has open.
package final class ForkGate: Sendable {
  /// Where an examination has to pass, and which a fork holds while it waits for the lock: a mutex
  /// alone would mostly go to who has just let go of it, however long another one waits.
  private let entrance = Lock()
  private let lock = Lock()
  private let isWaiting = Atomic(false)

  package init() {}

  /// Whether a fork waits for an examination to end.
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
