internal import BreakerStore
public import SharedBreaker

/// A process of a test host, which shares the breakers with the other processes and can be killed.
///
/// Get one from ``TestHost/process(program:)``.
public final class TestProcess: Sendable {
  /// The name of the program in the history.
  public let program: String

  private let host: HostState
  private let process: HostProcess

  init(_ process: HostProcess, of host: HostState, program: String) {
    self.process = process
    self.host = host
    self.program = program
  }

  /// The number of the process, as leases and the history show it.
  public var pid: Int32 { process.identity.pid }

  /// Whether the process is still running: it has not been killed or ended by a reboot.
  public var isRunning: Bool { process.isRunning }

  /// Returns the store of the host, as this process uses it.
  ///
  /// - Parameters:
  ///   - timer: The timer that calls wait by; the clock of the host if nil.
  ///   - onStoreFailure: The action of a call while the store fails.
  ///   - observer: Called with what happens, like `StoreOptions.observer`.
  /// - Returns: A store that behaves like one in a file.
  public func store(
    timer: StoreTimer? = nil, onStoreFailure: StoreFailureAction = .continueLocally,
    observer: (@Sendable (StoreEvent) -> Void)? = nil
  ) -> SharedStore {
    var options = StoreOptions(
      onStoreFailure: onStoreFailure, program: program, clock: host.clock.storeClock,
      timer: timer ?? host.clock.storeTimer, observer: observer)
    options.processes = host.processes(seenBy: process)
    let store = SharedStore(
      storage: ProcessStorage(of: host, in: process, program: program), options: options)
    process.opens(store)
    return store
  }

  /// Ends the process at once, as `kill -9` does; does nothing if it has ended already.
  ///
  /// Counts and reports of the process are kept. The slots of its probes go to the next callers,
  /// and its hooks run again in other processes. From then on its own calls throw
  /// `BreakerError.store`, whatever its `StoreFailureAction` is, and its reports are refused.
  public func kill() { host.end([process]) }
}

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
