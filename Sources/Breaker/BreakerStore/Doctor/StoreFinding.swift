/// The result of one check of a store.
public struct StoreFinding: Sendable, Hashable {
  /// How serious it is.
  ///
  /// A later version may add cases, so end a `switch` over a result with `default`.
  #if hasAttribute(nonexhaustive)
    @nonexhaustive
  #endif
  public enum Result: String, Sendable, Hashable, CaseIterable {
    /// As it should be.
    case ok

    /// Worth knowing, but harmless.
    case note

    /// The store can be used, but something about it is not as it should be.
    case warning

    /// The store cannot be used or relied on.
    case bad
  }

  /// The name of the check, which never changes.
  public var check: String

  /// How serious it is.
  public var result: Result

  /// The state that was found.
  public var found: String

  /// The consequence, unless it is obvious.
  public var means: String?

  /// The repair that would be or was made, or why none can be; nil if none is needed.
  public var repair: String?

  /// The steps with which a repair would fix it.
  var remedies: [StoreRemedy] = []

  init(
    _ check: StoreCheck, _ result: Result, _ found: String, means: String? = nil,
    repair: String? = nil, _ remedies: [StoreRemedy] = []
  ) {
    self.check = check.rawValue
    self.result = result
    self.found = found
    self.means = means
    self.repair = repair
    self.remedies = remedies
  }

  /// Whether no action is needed.
  public var isWell: Bool { result == .ok || result == .note }
}

/// The checks of a store, in the order in which they are reported.
package enum StoreCheck: String, CaseIterable, Sendable {
  case directory, files, disk, sqlite, version, journal, migrations, integrity, rows, breakers
  case leases, policies, history, clock, fleet, log, writing, counters, slots
  case processes, leftovers
}

/// A step of a repair.
enum StoreRemedy: Hashable {
  /// Moves the store and all files beside it away, and creates a new one.
  case startOver

  /// Moves a file beside the store away, if it is still the file that was examined.
  case setAside(suffix: String, FileIdentity)

  /// Changes the permissions and owners of a file, if it is still the one that was examined, and
  /// its contents prove that it is the store's; nil stands for the directory.
  case adjust(suffix: String?, FileIdentity, FileRights)

  /// Fixes values in rows that the library cannot have written.
  case repairRows

  /// Ends the leases of probes that are over.
  case freeLeases

  /// Corrects times that no process with the host's clock can have written.
  case correctTimes

  /// Moves the log into the file.
  case foldLog

  /// Opens the store once as usual, which creates whatever is missing.
  case open
}
