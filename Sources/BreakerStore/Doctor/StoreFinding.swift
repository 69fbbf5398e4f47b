/// What one check of a store has found.
public struct StoreFinding: Sendable, Hashable {
  /// How good or bad it is.
  public enum Result: String, Sendable, Hashable, CaseIterable {
    /// As it should be.
    case ok

    /// Worth knowing, and harmless as it is.
    case note

    /// The store can be used, but something about it is not as it should be.
    case warning

    /// The store cannot be used, or not be relied on.
    case bad
  }

  /// The name of the check, which never changes.
  public var check: String

  /// How good or bad it is.
  public var result: Result

  /// What was found.
  public var found: String

  /// What that means, if it is not plain.
  public var means: String?

  /// What a repair would do, or has done; nil if there is nothing that it could do.
  public var repair: String?

  /// What to do about it.
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

  /// Whether nobody has to do anything about it.
  public var isWell: Bool { result == .ok || result == .note }
}

/// The checks of a store, in the order in which they are told.
package enum StoreCheck: String, CaseIterable, Sendable {
  case directory, files, disk, sqlite, version, journal, migrations, integrity, rows, breakers
  case leases, policies, history, clock, log, counters, processes, leftovers
}

/// What a repair can do.
enum StoreRemedy: Hashable {
  /// Moves the store and all that lies beside it away, and begins a new one.
  case beginAnew

  /// Moves one file that lies beside the store away, if it is still the one that was looked at.
  case setAside(suffix: String, FileIdentity)

  /// Gives a file or directory other permissions and owners.
  case adjust(path: String, FileRights)

  /// Puts right what rows hold that nobody can have written.
  case mendRows

  /// Ends what probes have left that are over.
  case freeLeases

  /// Moves the log into the file.
  case foldLog

  /// Opens the store once, as every use does, which makes what is missing.
  case open
}
