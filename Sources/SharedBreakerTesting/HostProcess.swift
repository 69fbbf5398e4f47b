internal import BreakerStore
internal import SharedBreaker

/// A process of a test host: its identity, and whether it has ended.
final class HostProcess: Sendable {
  let identity: ProcessIdentity

  private let lock = Lock()
  private nonisolated(unsafe) var stores:
    [(before: @Sendable () -> Void, after: @Sendable () -> Void)] = []
  private nonisolated(unsafe) var isOver = false

  init(_ identity: ProcessIdentity) { self.identity = identity }

  var isRunning: Bool { lock.withLock { unsafe !isOver } }

  /// The error of everything that the process does after its end; nil while it runs.
  var ending: StoreError? {
    isRunning
      ? nil
      : StoreError(
        .other, "process \(identity.pid) of the test host has ended: ask the host for another one")
  }

  /// Notes a store that the process uses, so that the store ends with the process.
  func opens(_ store: SharedStore) {
    let ending = store.ending
    lock.withLock { unsafe stores.append(ending) }
  }

  func end() {
    let ending = lock.withLock {
      defer { unsafe stores = [] }
      return unsafe stores
    }
    for store in ending { store.before() }
    lock.withLock { unsafe isOver = true }
    for store in ending { store.after() }
  }
}
