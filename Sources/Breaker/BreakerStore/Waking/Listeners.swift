internal import Synchronization

/// Tasks that wait for a store to have new events.
///
/// A wake-up only says that it is time to look, not what has happened. Each listener reads on from
/// where it is. Unchecked because the compiler does not know that the lock guards the rest.
package final class Listeners: @unchecked Sendable {
  private let lock = Lock()

  /// The file to watch; nil if the storage itself calls ``wake()``.
  private let path: String?
  private var watch: FileWatch?
  private var forkDepth: UInt64 = 0
  private var count = 0
  private var wakeUps: UInt64 = 0
  private var lastWait: UInt64 = 0

  private var waiting: [UInt64: CheckedContinuation<Void, Never>]

  package init(path: String?) {
    self.path = path
    // With a literal, each process would search all conformances for the dictionary's type.
    waiting = .init()
  }

  /// Adds a listener; whatever happens from now on raises the number of wake-ups.
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
      return forkDepth == ForkGuard.depth ? watch : nil
    }
    ended?.end()
  }

  /// How many wake-ups there have been: get it before you look, and pass it to `wait`.
  package var latestWakeUp: UInt64 {
    lock.withLock {
      beginToWatch()
      return wakeUps
    }
  }

  /// Whether no wake-up would arrive, so that a listener must look from time to time.
  package var isBlind: Bool { lock.withLock { path != nil && watch?.isWatching != true } }

  /// Waits until there is another wake-up, or the task is cancelled.
  package func wait(after wakeUp: UInt64) async {
    let wait = lock.withLock {
      lastWait += 1
      return lastWait
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = lock.withLock {
          // If the task is cancelled from here on, the handler will find its continuation.
          if wakeUps != wakeUp || Task.isCancelled { return true }
          waiting[wait] = continuation
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      lock.withLock { waiting.removeValue(forKey: wait) }?.resume()
    }
  }

  /// Wakes all listeners, because it is time to look.
  package func wake() {
    let woken = lock.withLock {
      wakeUps += 1
      defer { waiting.removeAll() }
      return waiting.values
    }
    for continuation in woken { continuation.resume() }
  }

  func willFork() { lock.lock() }

  func didFork() {
    // The watching thread exists only in the parent. A child that shared its descriptors would
    // consume its notifications.
    if let watch, forkDepth != ForkGuard.depth {
      watch.abandon()
      self.watch = nil
    }
    lock.unlock()
  }

  /// Starts to watch if there is a listener; the caller holds the lock.
  private func beginToWatch() {
    guard let path, count > 0, watch == nil else { return }
    forkDepth = ForkGuard.depth
    watch = FileWatch(path: path) { [weak self] in self?.wake() }
  }
}
