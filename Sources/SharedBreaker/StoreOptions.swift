package import BreakerStore

/// How a process uses a store.
public struct StoreOptions: Sendable {
  /// The longest that a call waits for another process that is writing.
  public var lockTimeout: Duration

  /// What a call does while the store cannot be used.
  public var onStoreFailure: StoreFailureAction

  /// The permission bits of the files, if this process makes them; 0600 if nil.
  public var mode: UInt32?

  /// The group of the files, if this process makes them.
  public var group: String?

  /// How many breakers the store may have before this process makes no other; 200,000 if nil.
  public var maximumBreakers: Int?

  /// The name of this program in the history; the name of its executable if nil.
  public var program: String?

  /// Is told what happens, in the thread in which it happens, never under a lock.
  public var observer: (@Sendable (StoreEvent) -> Void)?

  /// Where the time comes from; tests move one of their own.
  public var clock: StoreClock

  /// How calls wait for an attempt or a timeout; tests wake them by hand.
  public var timer: StoreTimer

  /// The processes that the store is shared with; a host in a test has its own.
  package var processes = HostProcesses.system

  /// Describes the use of a store; what is not given has its default.
  public init(
    lockTimeout: Duration = .milliseconds(500),
    onStoreFailure: StoreFailureAction = .continueLocally,
    mode: UInt32? = nil,
    group: String? = nil,
    maximumBreakers: Int? = nil,
    program: String? = nil,
    clock: StoreClock = .system,
    timer: StoreTimer = .system,
    observer: (@Sendable (StoreEvent) -> Void)? = nil
  ) {
    self.lockTimeout = lockTimeout
    self.onStoreFailure = onStoreFailure
    self.mode = mode
    self.group = group
    self.maximumBreakers = maximumBreakers
    self.program = program
    self.clock = clock
    self.timer = timer
    self.observer = observer
  }
}

/// What a call does while the store cannot be used.
public enum StoreFailureAction: Sendable, Hashable {
  /// Goes on with a breaker of this process alone, which begins as the shared one was last seen.
  case continueLocally

  /// Lets the call through.
  case permit

  /// Rejects the call.
  case reject

  /// Throws the store's error instead of letting the call through.
  case `throw`
}

/// Something that an observer is told.
public enum StoreEvent: Sendable, Hashable {
  /// The store cannot be used; told once, until it can be used again.
  case unavailable(StoreError)

  /// The store can be used again.
  case available

  /// A transition that is in the store may not survive a power cut.
  case notDurable(StoreError)

  /// This process has changed the state of a breaker.
  case transition(name: String, from: BreakerState, to: BreakerState, reason: String)

  /// This process has not let a call through.
  case rejected(name: String, Rejection)

  /// Code has declared another policy for a breaker after this process did, and that one is in force.
  case policyDiffers(name: String, declaredHere: String, inForce: String)

  /// The store has no room for a breaker, which goes on in this process alone; told once.
  case notShared(name: String, StoreError)

  /// A hook has failed too often for an entry of the history, which is passed over.
  case hookGaveUp(hook: String, entry: Int64, name: String)
}

/// Whether a process can use its store.
public enum StoreHealth: Sendable, Hashable {
  /// It has not tried yet.
  case untried

  /// It can.
  case connected

  /// It could not when it last tried.
  case unavailable(StoreError)
}
