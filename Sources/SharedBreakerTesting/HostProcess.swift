internal import BreakerStore
internal import SharedBreaker

/// A process of a test host: its identity, and whether it has ended.
final class HostProcess: Sendable {
  let identity: ProcessIdentity

  private struct Course {
    var stores: [(before: @Sendable () -> Void, after: @Sendable () -> Void)] = []
    var isOver = false
  }

  private let course = Guarded(Course())

  init(_ identity: ProcessIdentity) { self.identity = identity }

  var isRunning: Bool { course.withLock { !$0.isOver } }

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
    course.withLock { $0.stores.append(ending) }
  }

  func end() {
    let ending = course.withLock { course in
      defer { course.stores = [] }
      return course.stores
    }
    for store in ending { store.before() }
    course.withLock { $0.isOver = true }
    for store in ending { store.after() }
  }
}
