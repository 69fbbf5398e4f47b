internal import BreakerCore
package import BreakerStore

/// The breakers of one file, shared with every process that opens the same one.
///
/// A store is opened at its first use and never gets in the way: while it cannot be used, breakers
/// do what ``StoreOptions/onStoreFailure`` says, and they come back to it by themselves.
public final class SharedStore: Sendable {
  /// The path of the file; empty if none was given and ``defaultPath()`` throws.
  public let path: String

  /// Why there is no path, if there is none.
  let refusal: StoreError?

  let engine: Engine

  /// Names a store; the usual one of this user if no path is given.
  ///
  /// Nothing is opened yet, so nothing can fail. Use ``connect()`` to find out at once.
  public init(path: String? = nil, options: StoreOptions = StoreOptions()) {
    var refusal: StoreError?
    var chosen = path ?? ""
    if path == nil {
      do throws(StoreError) { chosen = try Self.defaultPath() } catch { refusal = error }
    }
    self.path = chosen
    self.refusal = refusal
    let program = options.program.map { OutsideText.cut($0, to: 255) } ?? ProcessTable.programName()
    let storage = SQLiteStorage(
      path: chosen, access: StoreAccess(mode: options.mode, group: options.group),
      lockTimeout: options.lockTimeout, clock: options.clock, program: program,
      room: options.maximumBreakers, refusal: refusal)
    engine = Engine(storage: storage, options: options, program: program)
  }

  /// A store in the memory of this process; several that share a memory are as several processes.
  package init(storage: any BreakerStorage, options: StoreOptions) {
    path = ":memory:"
    refusal = nil
    let program = options.program ?? ProcessTable.programName()
    engine = Engine(storage: storage, options: options, program: program)
  }

  /// The path that is used when none is given.
  ///
  /// It is `$SHARED_BREAKER_STORE`, else `/var/lib/shared-breaker/breakers.db` for root, else
  /// `$XDG_STATE_HOME/shared-breaker/breakers.db`, where the state home is `~/.local/state` if unset.
  ///
  /// - Throws: `StoreError` if what names it is not UTF-8, so that it cannot be said.
  public static func defaultPath() throws(StoreError) -> String { try StorePath.usual() }

  /// The version of the SQLite library that is in use.
  public static var sqliteVersion: String { SQLiteStorage.libraryVersion }

  /// Opens the store now, and makes it if there is none.
  ///
  /// - Throws: `StoreError`, which says what is wrong with it.
  public func connect() throws(StoreError) {
    try engine.storage.open(mayCreate: true)
    engine.hasConnected()
  }

  /// Opens the store now, if there is one.
  ///
  /// - Throws: `StoreError`, of kind `missing` if there is no store at the path.
  public func connectToExisting() throws(StoreError) {
    try engine.storage.open(mayCreate: false)
    engine.hasConnected()
  }

  /// Whether this process can use the store.
  public var health: StoreHealth { engine.look { $0.availability.health } }

  /// Writes what is yet to be written and lets go of the file; the next use opens it again.
  ///
  /// This happens by itself when the store and its breakers are no longer used. A program that
  /// keeps them to its end calls it before it exits, so that the totals of its last second count.
  public func close() { engine.close() }
}

/// What the end of a process in a test does.
extension SharedStore {
  /// What is to be done before the process ends, and when it has ended; the store is not kept alive.
  ///
  /// What was counted is written, as a file would have it already. Then nothing is known any more that
  /// would let a call through from memory.
  package var ending: (before: @Sendable () -> Void, after: @Sendable () -> Void) {
    ({ [weak engine] in engine?.close() }, { [weak engine] in engine?.forgetBaseline() })
  }
}

/// Getting at breakers.
extension SharedStore {
  /// The breaker of a name.
  ///
  /// A policy that is given is declared for all processes: of several that differ, the one declared
  /// last is in force, and what an operator has set wins over it. The same declaration made again
  /// writes nothing. Without a policy, the breaker has whatever has been declared, or the default.
  ///
  /// - Throws: `BreakerError` if the name or the policy cannot be used; never because of the store.
  public func breaker(
    _ name: String, policy: BreakerPolicy? = nil, onStoreFailure: StoreFailureAction? = nil
  ) throws(BreakerError) -> Breaker {
    try Breaker.validate(name: name)
    let breaker = Breaker(
      engine, cell: engine.cell(name),
      onStoreFailure: onStoreFailure ?? engine.options.onStoreFailure)
    if let policy {
      do throws(PolicyError) {
        try policy.validate()
      } catch {
        throw .invalidPolicy(name: name, error)
      }
      engine.declare(policy, for: breaker.cell)
    }
    return breaker
  }

  /// The breaker of a name if there is one in the store; none is made.
  ///
  /// - Throws: `BreakerError` if the name or the store cannot be used.
  public func existingBreaker(_ name: String) throws(BreakerError) -> Breaker? {
    try Breaker.validate(name: name)
    engine.doRounds()
    do throws(StoreError) {
      guard try engine.storage.find(name) != nil else { return nil }
    } catch {
      throw .store(error)
    }
    return Breaker(
      engine, cell: engine.cell(name), onStoreFailure: engine.options.onStoreFailure)
  }

  /// Deletes a breaker with all that is known of it but its history; false if there was none.
  ///
  /// - Throws: `StoreError` if the store cannot be used.
  public func delete(_ name: String) throws(StoreError) -> Bool {
    try engine.delete(name, ifStill: nil)
  }

  /// Deletes a breaker if it has been neither used nor changed since it was looked at.
  ///
  /// - Returns: Whether it was deleted; false if it is another one by now, or gone.
  /// - Throws: `StoreError` if the store cannot be used.
  public func delete(ifStillAs snapshot: BreakerSnapshot) throws(StoreError) -> Bool {
    guard let version = snapshot.version.value else { return false }
    return try engine.delete(snapshot.name, ifStill: version)
  }

  /// Writes down that a breaker has been used by now; false if there is none.
  ///
  /// Successes leave no time behind. Who wants to know later whether there were any since has this
  /// done first; see ``BreakerSnapshot/lastUsedAt``.
  ///
  /// - Throws: `StoreError` if the store cannot be used.
  public func noteUse(of name: String) throws(StoreError) -> Bool {
    let noted = try engine.step(engine.cell(name), orCreate: false) { draft in
      draft.breaker.usedAtMilliseconds = draft.now.wallMilliseconds
    }
    return noted != nil
  }
}

/// Looking without touching.
extension SharedStore {
  /// The breaker of a name as it stands now, or nil if there is none.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func snapshot(of name: String) throws(StoreError) -> BreakerSnapshot? {
    engine.doRounds()
    return try engine.storage.find(name).map { engine.snapshot(of: $0, at: engine.clock.moment) }
  }

  /// What happened, oldest first.
  ///
  /// - Parameters:
  ///   - name: The breaker, or nil for all of them.
  ///   - since: The earliest time of interest.
  ///   - limit: How many of the newest to give.
  /// - Returns: What happened, oldest first.
  /// - Throws: `StoreError` if the store cannot be read.
  public func history(
    of name: String? = nil, since: Timestamp? = nil, limit: Int? = nil
  ) throws(StoreError) -> [HistoryEntry] {
    engine.doRounds()
    return try engine.storage.history(
      of: name, sinceMilliseconds: since?.millisecondsSince1970, limit: limit
    ).map { HistoryEntry($0) }
  }

  /// The policies that code has declared for a breaker, the latest last.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func declarations(of name: String) throws(StoreError) -> [PolicyDeclaration] {
    engine.doRounds()
    let inForce = try engine.storage.find(name)?.codeWords
    return try engine.storage.declarations(of: name).map {
      PolicyDeclaration($0, isInForce: $0.words == inForce)
    }
  }
}
