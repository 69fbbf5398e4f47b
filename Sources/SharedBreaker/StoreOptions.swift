internal import BreakerCore
package import BreakerStore

/// How a process uses a store.
///
/// ```swift
/// let options = StoreOptions(onStoreFailure: .permit) { event in log("\(event)") }
/// let store = SharedStore(options: options)
/// ```
public struct StoreOptions: Sendable {
  /// The longest time a call waits for another process that is writing.
  ///
  /// A call blocks its thread meanwhile, even an asynchronous one. After that the store counts as
  /// unavailable, with an error of kind `busy`.
  public var lockTimeout: Duration

  /// What a call does while the store cannot be used.
  public var onStoreFailure: StoreFailureAction

  /// The permission bits of the files, if this process creates them.
  ///
  /// If it is nil and ``StoreOptions/group`` is set, they are 0600. If both are nil, a new store
  /// gets the rights of the one it replaces. If there was none, it gets mode 0660 and the group of
  /// its directory where that is set up for a group as `cbctl init --group` does it, and 0600
  /// anywhere else.
  public var mode: UInt32?

  /// The group of the files, if this process creates them.
  public var group: String?

  /// How many breakers the store may have before this process creates no more; 200,000 if nil.
  ///
  /// A breaker beyond that works in this process alone; see ``StoreEvent/notShared(name:_:)``.
  public var maximumBreakers: Int?

  /// The name of this program in the history; that of its executable if nil.
  ///
  /// A script comes first, as in `worker.py (python3.11)`, if the kernel still knows it. At most 255
  /// bytes are kept.
  public var program: String?

  /// The user for whom this program acts, as the history names them; nil if it acts for itself.
  ///
  /// Set it in a tool of your operators. The history then says `alice, via console` instead of the
  /// number of a process that has long ended. At most 255 bytes are kept.
  public var user: String?

  /// The command that this program runs for its user, as the history names it; nil if it runs none.
  ///
  /// Leave the arguments out, because they may be secret. At most 255 bytes are kept.
  public var command: String?

  /// A function that is called with what this process does and what happens to it.
  ///
  /// It runs in the thread that did the thing, after the transaction and never under a lock, so it
  /// may use the store and its breakers. The call waits for it, so keep it short.
  public var observer: (@Sendable (StoreEvent) -> Void)?

  /// Where the store gets the time; tests give it a clock that they move.
  public var clock: StoreClock

  /// How calls wait between attempts and for their timeout; tests wake them by hand.
  public var timer: StoreTimer

  /// The processes that share the store; a host in a test has its own.
  package var processes = HostProcesses.system

  /// Describes how to use a store; each argument you leave out has its default.
  public init(
    lockTimeout: Duration = .milliseconds(500),
    onStoreFailure: StoreFailureAction = .continueLocally,
    mode: UInt32? = nil,
    group: String? = nil,
    maximumBreakers: Int? = nil,
    program: String? = nil,
    user: String? = nil,
    command: String? = nil,
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
    self.user = user
    self.command = command
    self.clock = clock
    self.timer = timer
    self.observer = observer
  }
}

extension StoreOptions {
  var mandate: HistoryAuthor.Mandate { HistoryAuthor.Mandate(user: user, command: command) }
}

/// What a call does while the store cannot be used.
///
/// A later version may add cases, so end a `switch` over an action with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum StoreFailureAction: Sendable, Hashable {
  /// Uses a breaker of this process alone, which starts from the last known shared state.
  ///
  /// When the store can be used again, what this breaker has counted is discarded.
  case continueLocally

  /// Permits the call; its outcome is not recorded.
  case permit

  /// Rejects the call.
  case reject

  /// Throws `BreakerError.store` instead of permitting the call.
  case `throw`
}

/// Something that the observer of a store is notified of.
///
/// A later version may add cases, so end a `switch` over an event with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum StoreEvent: Sendable, Hashable {
  /// The store cannot be used; reported once, until it can be used again.
  case unavailable(StoreError)

  /// The store can be used again; each breaker is in the state that the store says.
  case available

  /// A change is in the store, but it may not survive a power cut.
  case notDurable(StoreError)

  /// This process has changed the state of a breaker in the store.
  case transition(name: String, from: BreakerState, to: BreakerState, reason: String)

  /// The breaker that this process uses while it goes on alone has changed its state.
  ///
  /// No other process sees it, and no history has it. When the store is back, its state holds again.
  case transitionAlone(name: String, from: BreakerState, to: BreakerState, reason: String)

  /// A breaker has rejected a call of this process.
  ///
  /// There may be a million of these a second: do no more than count them.
  case rejected(name: String, Rejection)

  /// After this process declared its policy, other code declared a different one that is in force.
  ///
  /// Both policies are in words. `PolicyDifference(from: declaredHere, to: inForce).text()` says in
  /// which of them they differ, as in `open-for 30s -> 1m, +probes=2`.
  case policyDiffers(name: String, declaredHere: String, inForce: String)

  /// The store has no room for a breaker, which now works in this process alone; reported once.
  ///
  /// Once a second the store is asked again for room, for all such breakers together.
  case notShared(name: String, StoreError)

  /// A hook has failed too often for an entry of the history, so the entry is skipped.
  case hookGaveUp(hook: String, entry: Int64, name: String)
}

extension StoreEvent: CustomStringConvertible {
  /// What happened, in one line for a log, such as `payments: closed -> open: 3 failures in a row`.
  public var description: String {
    switch self {
    case .unavailable(let error): "the store is unavailable: \(error)"
    case .available: "the store is available again"
    case .notDurable(let error): "a change may not survive a power cut: \(error)"
    case .transition(let name, let from, let to, let reason):
      Self.line(name, "\(BreakerChange.transition(from: from, to: to)): \(reason)")
    case .transitionAlone(let name, let from, let to, let reason):
      Self.line(
        name, "\(BreakerChange.transition(from: from, to: to)) in this process alone: \(reason)")
    case .rejected(let name, let rejection): Self.line(name, "a call was rejected: \(rejection)")
    case .policyDiffers(let name, let declaredHere, let inForce):
      Self.line(
        name,
        "another policy is in force: \(PolicyDifference(from: declaredHere, to: inForce).text())")
    case .notShared(let name, let error):
      Self.line(name, "this process shares it with no other: \(error)")
    case .hookGaveUp(let hook, let entry, let name):
      Self.line(name, "hook '\(hook)' has failed too often and skips entry \(entry)")
    }
  }

  private static func line(_ name: String, _ words: String) -> String {
    "\(OutsideText.name(name)): \(OutsideText.visible(words))"
  }
}

/// Whether a process can use its store.
///
/// A later version may add cases, so end a `switch` over the health of a store with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum StoreHealth: Sendable, Hashable {
  /// The process has not tried to use the store yet.
  case untried

  /// The process can use the store.
  case connected

  /// The process could not use the store when it last tried.
  case unavailable(StoreError)
}
