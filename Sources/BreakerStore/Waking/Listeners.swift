internal import Synchronization

/// Those who wait for a store to have new events.
///
/// Nobody is told what has happened, only that it is time to look: each reads on from where it is.
package final class Listeners: @unchecked Sendable {
  private let lock = Lock()

  /// The file that is watched for them; nil if the storage itself calls ``wake()``.
  private let path: String?
  private var watch: FileWatch?
  private var generation: UInt64 = 0
  private var count = 0
  private var calls: UInt64 = 0
  private var lastWait: UInt64 = 0
  private var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]

  package init(path: String?) { self.path = path }

  /// One more listens; what happens from now on raises the number of calls.
  package func join() {
    lock.withLock {
      count += 1
      beginToWatch()
    }
  }

  package func leave() {
    let ended = lock.withLock { () -> FileWatch? in
      count -= 1
      guard count == 0 else { return nil }
      defer { watch = nil }
      return generation == ForkGuard.generation ? watch : nil
    }
    ended?.end()
  }

  /// How often it was time to look; to be asked before looking.
  package var currentCall: UInt64 {
    lock.withLock {
      beginToWatch()
      return calls
    }
  }

  /// Whether nobody would be woken, so that it takes a look now and then.
  package var isBlind: Bool { lock.withLock { path != nil && watch?.isWatching != true } }

  /// Waits until there is another call, or the task is cancelled.
  package func wait(after call: UInt64) async {
    let wait = lock.withLock {
      lastWait += 1
      return lastWait
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = lock.withLock {
          // A task that is cancelled from here on finds its continuation.
          if calls != call || Task.isCancelled { return true }
          waiting[wait] = continuation
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      lock.withLock { waiting.removeValue(forKey: wait) }?.resume()
    }
  }

  /// It is time to look.
  package func wake() {
    let woken = lock.withLock {
      calls += 1
      defer { waiting = [:] }
      return waiting.values
    }
    for continuation in woken { continuation.resume() }
  }

  func willFork() { lock.lock() }

  func didFork() {
    // The thread that watches is the parent's. Sharing its descriptors would take its news away.
    if let watch, generation != ForkGuard.generation {
      watch.abandon()
      self.watch = nil
    }
    lock.unlock()
  }

  /// Under the lock.
  private func beginToWatch() {
    guard let path, count > 0, watch == nil else { return }
    generation = ForkGuard.generation
    watch = FileWatch(path: path) { [weak self] in self?.wake() }
  }
}
