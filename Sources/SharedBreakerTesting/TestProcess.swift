internal import BreakerStore
public import SharedBreaker

/// A process of a ``TestHost``, which shares the host's breakers with the others and can be killed.
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

  /// The number of the process, as leases and the history name it.
  public var pid: Int32 { process.identity.pid }

  /// Whether the process has been neither killed nor ended by a reboot.
  public var isRunning: Bool { process.isRunning }

  /// The store of the host as this process uses it.
  ///
  /// - Parameters:
  ///   - timer: What calls wait by, if it is not to be the clock of the host.
  ///   - onStoreFailure: What a call does while the store fails.
  ///   - observer: Is told what happens, as by `StoreOptions`.
  /// - Returns: A store that behaves as one with a file.
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

  /// Ends the process at once, as `kill -9` does; nothing happens if it has ended already.
  ///
  /// What it has counted and reported is kept. Its leases are taken back by the next caller, and its
  /// hooks run again in other processes. Its own calls throw `BreakerError.store` from then on, whatever
  /// they were to do without the store, and its reports are refused.
  public func kill() { host.end([process]) }
}
