internal import BreakerStore
internal import Synchronization

/// The readings of what changed: one at a time, for all threads that wait for it.
final class Refreshes: Sendable {
  private let lock = Lock()
  private let failures = Atomic<Int64>(0)
  private let latest = Guarded<StoreError?>(nil)

  /// Reads, unless the thread before this one has done so meanwhile.
  ///
  /// - Throws: What the reading throws. A thread that waited behind one that waited without success has
  ///   waited long enough, and gets the same error.
  func run(
    unless isDone: () -> Bool, _ read: () throws(StoreError) -> Void
  ) throws(StoreError) {
    let arrival = failures.load(ordering: .relaxed)
    guard lock.lock(until: Patience.end) else { throw .waitedInVain() }
    defer { lock.unlock() }
    if isDone() { return }
    if failures.load(ordering: .relaxed) != arrival, let error = latest.withLock({ $0 }) {
      throw error
    }
    do throws(StoreError) { try read() } catch {
      // A thread whose wait was ended early has not found out anything for the others.
      guard !error.isInterrupted else { throw error }
      latest.withLock { $0 = error }
      failures.add(1, ordering: .relaxed)
      throw error
    }
  }

  func willFork() {
    lock.lock()
    latest.willFork()
  }

  func didFork() {
    latest.didFork()
    lock.unlock()
  }
}
