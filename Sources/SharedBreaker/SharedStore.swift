internal import BreakerCore
package import BreakerStore

/// The breakers in one file, shared by every process that opens the same file.
///
/// The file is opened when it is first needed. While the store cannot be used, calls through its
/// breakers do what ``StoreOptions/onStoreFailure`` says; once a second one call tries the store
/// again.
///
/// ```swift
/// let store = SharedStore()
/// let payments = try store.breaker("payments", policy: .http)
/// let receipt = try await payments.run { try await client.charge(order) }
/// ```
///
/// When a call returns and the store can be used, the failure or the change of state that it
/// reported survives `kill -9` of every process.
public final class SharedStore: Sendable {
  /// The path of the file; empty if you gave none and ``defaultPath()`` throws.
  public let path: String

  /// Why there is no path; nil if there is one.
  let refusal: StoreError?

  let engine: Engine

  /// Names a store without opening it.
  ///
  /// Nothing is opened yet, so nothing can fail. Call ``connect()`` to learn at once whether the
  /// store can be used.
  ///
  /// - Parameters:
  ///   - path: The file; ``defaultPath()`` if nil. A relative path is resolved now, so the store
  ///     stays the same when the process changes its directory.
  ///   - options: How this process uses the store.
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

  /// Creates a store in memory; stores that share one storage behave like separate processes.
  package init(storage: any BreakerStorage, options: StoreOptions) {
    path = ":memory:"
    refusal = nil
    let program = options.program ?? ProcessTable.programName()
    engine = Engine(storage: storage, options: options, program: program)
  }

  /// Returns the path of the store that is used when you give none.
  ///
  /// It is the first of these that applies:
  ///
  /// 1. `$SHARED_BREAKER_STORE`, if it is not empty.
  /// 2. `/var/lib/shared-breaker/breakers.db`, for root.
  /// 3. `$XDG_STATE_HOME/shared-breaker/breakers.db`, if the variable holds an absolute path.
  /// 4. `~/.local/state/shared-breaker/breakers.db`.
  ///
  /// A user without a home directory gets the path of root.
  ///
  /// - Throws: `StoreError` if the text that names the path is not UTF-8.
  public static func defaultPath() throws(StoreError) -> String { try StorePath.usual() }

  /// The version of this library.
  public static let version = "0.9.0"

  /// The version of the SQLite library that this process runs with.
  public static var sqliteVersion: String { SQLiteStorage.libraryVersion }

  /// Opens the store now, and creates the file if there is none.
  ///
  /// You need not call it: the first use does the same. Call it to report a store that cannot be
  /// used when the program starts.
  ///
  /// - Throws: `StoreError`, which says what is wrong with the store and what to do. Breakers can
  ///   still be used then: calls do what ``StoreOptions/onStoreFailure`` says.
  public func connect() throws(StoreError) {
    try engine.storage.open(mayCreate: true)
    engine.hasConnected()
  }

  /// Opens the store now, but never creates it.
  ///
  /// From then on no other use of this object creates the file either, unless you call
  /// ``connect()``.
  ///
  /// - Throws: `StoreError`; its kind is `missing` if there is no store at the path.
  public func connectToExisting() throws(StoreError) {
    try engine.storage.open(mayCreate: false)
    engine.hasConnected()
  }

  /// Whether this process could use the store when it last tried; reading it tries nothing.
  public var health: StoreHealth { engine.look { $0.availability.health } }

  /// Writes what this process has not written yet, and keeps the file open.
  ///
  /// There is seldom anything to write. Failures and changes are written when they happen, and
  /// successes are counted in memory that all processes share. A process that cannot use that
  /// memory keeps its counts and writes them once a second, with its next call. A policy that could
  /// not be declared waits in the same way.
  ///
  /// Call `flush()` before the process pauses its calls for long, or ends without ``close()``, as by
  /// `_exit`. The child of a fork flushes what it has counted itself, and leaves what it inherited to
  /// its parent.
  ///
  /// - Throws: `StoreError` if there is something to write and the store cannot be used, or another
  ///   process locks it for longer than ``StoreOptions/lockTimeout``. What was not written is kept
  ///   for the next attempt.
  public func flush() throws(StoreError) { try engine.writePending(wait: .usual) }

  /// Writes what this process has not written yet and closes the file; the next use reopens it.
  ///
  /// The same happens when the last reference to the store and its breakers goes away. A program
  /// that keeps them until it exits should call `close()` first, so that the totals of its last
  /// second are not lost. A process that is killed loses them only where it could not use the
  /// shared counters.
  public func close() { engine.close() }
}

/// Ending a process in a test.
extension SharedStore {
  /// What to run before the process ends, and after it has ended; neither keeps the store alive.
  ///
  /// `before` writes the counts, because a real file would already have them. `after` forgets what
  /// would still permit calls from memory.
  package var ending: (before: @Sendable () -> Void, after: @Sendable () -> Void) {
    ({ [weak engine] in engine?.close() }, { [weak engine] in engine?.forgetBaseline() })
  }
}

/// Getting and deleting breakers.
extension SharedStore {
  /// Returns the breaker with a name, and declares its policy if you give one.
  ///
  /// ```swift
  /// let policy = BreakerPolicy(maxFailures: 3, openFor: .seconds(60))
  /// let payments = try store.breaker("payments", policy: policy)
  /// ```
  ///
  /// A policy is declared for all processes. If they declare different ones, the policy declared
  /// last is in force, and the values that an operator has set win over it. Declaring the same
  /// policy again writes nothing. A declaration that cannot be written now is written with the
  /// next write to the breaker.
  ///
  /// Declaring a policy opens the store, creates the breaker if there is none, and may wait as long
  /// as ``StoreOptions/lockTimeout`` for another process. Without a policy nothing is opened; the
  /// first call through the breaker creates it.
  ///
  /// - Parameters:
  ///   - name: The name that all processes use for the breaker.
  ///   - policy: The policy to declare; if nil, the declared one stays in force, or the default.
  ///   - onStoreFailure: What calls through this object do while the store cannot be used; if nil,
  ///     what ``StoreOptions/onStoreFailure`` says.
  /// - Returns: The breaker. Objects with the same name share everything but `onStoreFailure`.
  /// - Throws: `BreakerError` if the name or the policy is not valid; never because of the store.
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

  /// Returns the breaker with a name, or nil if the store has none.
  ///
  /// - Throws: `BreakerError` if the name is not valid or the store cannot be used.
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

  /// Deletes a breaker and everything that is known of it, except its history.
  ///
  /// A process that still uses the breaker creates a new one with its next call. Outcomes of calls
  /// that the old one permitted change nothing in the new one but its totals.
  ///
  /// - Returns: Whether there was a breaker to delete.
  /// - Throws: `StoreError` if the store cannot be used, or another process locks it for longer
  ///   than ``StoreOptions/lockTimeout``.
  public func delete(_ name: String) throws(StoreError) -> Bool {
    try engine.delete(name, ifStill: nil)
  }

  /// Deletes a breaker unless it has been used or changed since you took a snapshot of it.
  ///
  /// - Returns: Whether it was deleted; false if it was used, changed, replaced or deleted.
  /// - Throws: `StoreError` if the store cannot be used, or another process locks it for longer
  ///   than ``StoreOptions/lockTimeout``.
  public func delete(ifStillAs snapshot: BreakerSnapshot) throws(StoreError) -> Bool {
    try engine.delete(snapshot.name, ifStill: snapshot.version)
  }

  /// Records that a breaker has been used by now.
  ///
  /// Successes are counted without a time. To learn later whether a breaker has been used since a
  /// certain moment, call this at that moment and look at ``BreakerSnapshot/lastUsedAt`` later.
  ///
  /// - Returns: Whether there is such a breaker.
  /// - Throws: `StoreError` if the store cannot be used, or another process locks it for longer
  ///   than ``StoreOptions/lockTimeout``.
  public func noteUse(of name: String) throws(StoreError) -> Bool {
    // What is only known by its name must not be remembered for ever.
    guard try engine.storage.find(name) != nil else { return false }
    let noted = try engine.step(engine.cell(name), orCreate: false) { draft in
      draft.breaker.usedAtMilliseconds = draft.now.wallMilliseconds
    }
    return noted != nil
  }
}

/// Reading without changing anything.
extension SharedStore {
  /// Returns the breaker with a name as it stands now, or nil if there is none.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func snapshot(of name: String) throws(StoreError) -> BreakerSnapshot? {
    engine.doRounds()
    return try engine.storage.find(name).map { engine.snapshot(of: $0, at: engine.clock.moment) }
  }

  /// Returns what happened to one breaker or to all of them, oldest first.
  ///
  /// The history is bounded: the store keeps the latest 500 entries of a breaker, the latest 100
  /// changes of its policy, and 50,000 entries of all breakers together. The oldest are deleted after
  /// every 32nd entry, so there may be up to 31 more.
  ///
  /// - Parameters:
  ///   - name: The breaker, or nil for all of them.
  ///   - since: The earliest time of interest; nil for everything that is kept.
  ///   - limit: At most this many entries, the newest; nil for all of them.
  /// - Returns: The entries, oldest first.
  /// - Throws: `StoreError` if the store cannot be read.
  public func history(
    of name: String? = nil, since: BreakerTimestamp? = nil, limit: Int? = nil
  ) throws(StoreError) -> [HistoryEntry] {
    engine.doRounds()
    return try engine.storage.history(
      of: name, sinceMilliseconds: since?.millisecondsSince1970, limit: limit
    ).map { HistoryEntry($0, isAfterGap: false) }
  }

  /// Returns the oldest entries after one, and the entry to read on after.
  ///
  /// If the history now ends before that one, another file has taken the place of the store's, and
  /// is read from its beginning.
  package func entries(
    after id: Int64, of name: String?, limit: Int
  ) throws(StoreError) -> (entries: [HistoryEntry], last: Int64) {
    engine.doRounds()
    var batch = try engine.storage.events(after: id, of: name, limit: limit)
    if id != .max, id > batch.newest {
      batch = try engine.storage.events(after: 0, of: name, limit: limit)
    }
    let last = batch.events.count < limit ? batch.newest : batch.events.last?.id ?? batch.newest
    return (batch.events.map { HistoryEntry($0, isAfterGap: false) }, last)
  }

  /// Returns the policies that code has declared for a breaker, the latest last.
  ///
  /// The store keeps the 8 that were declared last.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func declarations(of name: String) throws(StoreError) -> [PolicyDeclaration] {
    engine.doRounds()
    let inForce = try engine.storage.find(name)?.words.code
    return try engine.storage.declarations(of: name).map {
      PolicyDeclaration($0, isInForce: $0.words == inForce)
    }
  }
}
