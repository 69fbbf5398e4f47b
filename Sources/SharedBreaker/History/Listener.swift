internal import BreakerStore

/// One of the listeners of a store, for as long as it exists.
final class Listener: Sendable {
  let storage: any BreakerStorage
  private let owner: Engine

  /// How long to wait before a store that could not be read is read again.
  static let pause = Duration.seconds(2)

  init(to storage: any BreakerStorage, of owner: Engine) {
    self.storage = storage
    self.owner = owner
    storage.listeners.join()
  }

  deinit { storage.listeners.leave() }

  /// The number of the latest wake-up: get it before you read, and pass it to `wait`.
  var latestWakeUp: UInt64 { storage.listeners.latestWakeUp }

  /// Waits until there may be something to read, or the task is cancelled.
  ///
  /// If the system cannot watch the file, it waits for ``pause`` at most.
  func wait(after wakeUp: UInt64, atMost limit: Duration? = nil) async {
    let listeners = storage.listeners
    guard let limit = limit ?? (listeners.isBlind ? Self.pause : nil) else {
      await listeners.wait(after: wakeUp)
      return
    }
    let timer = owner.options.timer
    await withTaskGroup { group in
      group.addTask { await listeners.wait(after: wakeUp) }
      group.addTask {
        // Only cancellation ends the sleep early, and then the group is done anyway.
        do { try await timer.sleep(for: limit) } catch {}
      }
      await group.next()
      group.cancelAll()
    }
  }

  /// Closes the storage where opening it again may help.
  func letGo(after error: StoreError) {
    if error.mayEndByReopening { storage.close() }
  }
}
