internal import BreakerCore
package import BreakerStore

/// How a process uses a store.
///
/// ```swift
/// let options = StoreOptions(onStoreFailure: .permit) { event in log("\(event)") }
/// let store = SharedStore(options: options)
/// ```
public struct StoreOptions: Sendable {
  /// The longest time a call waits for other processes that are using the store.
  ///
  /// It bounds all the waits of a call together. A call blocks its thread meanwhile, even an
  /// asynchronous one. After that the store counts as unavailable, with an error of kind `busy`.
  public var lockTimeout: Duration

  /// The action of a call while the store cannot be used.
  public var onStoreFailure: StoreFailureAction

  /// The permission bits of the files, if this process creates them.
  ///
  /// If it is nil and ``StoreOptions/group`` is set, they are 0660. If both are nil, a new store
  /// gets the rights of the one it replaces. If there was none, it gets mode 0660 and the group of
  /// its directory where that is set up for a group as `cbctl init --group` does it, and 0600
  /// anywhere else.
  public var mode: UInt32?

  /// The group of the files, if this process creates them.
  public var group: String?

  /// How many breakers the store may have before this process creates no more;
  /// ``usualMaximumBreakers`` if nil.
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

  /// Whether to print nothing if there is no observer.
  ///
  /// Otherwise a process without an observer prints a line on standard error when it can no longer
  /// use the store, and one when it can again: without them, nothing would show that it goes on
  /// alone. It is true if `$SHARED_BREAKER_QUIET` is set to anything but an empty text.
  public var isQuiet = StoreEvent.areQuietByEnvironment

  /// Where the store gets the time; tests give it a clock that they move.
  public var clock: StoreClock

  /// How calls wait between attempts and for their timeout; tests wake them by hand.
  public var timer: StoreTimer

  /// The processes that share the store; a host in a test has its own.
  package var processes = HostProcesses.system

  /// How many breakers a store may have if ``maximumBreakers`` is nil.
  public static let usualMaximumBreakers = Int(SQLiteStorage.usualBreakers)

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

/// The action of a call while the store cannot be used.
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

  /// Permits the call; its outcome is not recorded. A limit that is known holds nevertheless.
  case permit

  /// Rejects the call.
  case reject

  /// Throws `BreakerError.store` instead of permitting the call.
  case `throw`
}
