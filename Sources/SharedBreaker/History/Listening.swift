internal import BreakerStore

/// Takes part in what is told to the listeners of a store, as long as it is kept.
final class Listening: Sendable {
  let storage: any BreakerStorage
  private let owner: Engine

  /// How long a store that could not be read is left alone before it is looked at again.
  static let pause = Duration.seconds(2)

  init(to storage: any BreakerStorage, of owner: Engine) {
    self.storage = storage
    self.owner = owner
    storage.listeners.join()
  }

  deinit { storage.listeners.leave() }

  /// To be asked before looking, and given to the wait.
  var currentCall: UInt64 { storage.listeners.currentCall }

  /// Waits until there is something to look for, or the task is cancelled.
  ///
  /// Where the system cannot wake anybody, it does not wait for long.
  func wait(after call: UInt64, atMost limit: Duration? = nil) async {
    let listeners = storage.listeners
    guard let limit = limit ?? (listeners.isBlind ? Self.pause : nil) else {
      await listeners.wait(after: call)
      return
    }
    let timer = owner.options.timer
    await withTaskGroup { group in
      group.addTask { await listeners.wait(after: call) }
      group.addTask {
        // Only cancellation ends it early, and then it is over anyway.
        do { try await timer.sleep(for: limit) } catch {}
      }
      await group.next()
      group.cancelAll()
    }
  }

  /// Has the storage opened anew, where that may help.
  func letGo(after error: StoreError) {
    switch error.kind {
    case .busy, .diskFull: break
    default: storage.close()
    }
  }
}
