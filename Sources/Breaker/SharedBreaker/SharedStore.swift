// An application needs only `import SharedBreaker`.
@_exported public import BreakerCore
@_exported public import BreakerStore

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
    let program =
      options.program.map { OutsideText.cut($0, to: OutsideText.longestName) }
      ?? ProgramName.current()
    let storage = SQLiteStorage(
      path: chosen, access: StoreAccess(mode: options.mode, group: options.group),
      lockTimeout: options.lockTimeout, clock: options.clock, program: program,
      mandate: options.mandate,
      room: options.maximumBreakers, refusal: refusal)
    engine = Engine(storage: storage, options: options, program: program)
  }

  /// Creates a store in memory; stores that share one storage behave like separate processes.
  package init(storage: any BreakerStorage, options: StoreOptions) {
    path = ":memory:"
    refusal = nil
    let program = options.program ?? ProgramName.current()
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
    engine.update { $0.availability.hasConnected() }
  }

  /// Opens the store now, but never creates it.
  ///
  /// From then on no other use of this object creates the file either, unless you call
  /// ``connect()``.
  ///
  /// - Throws: `StoreError`; its kind is `missing` if there is no store at the path.
  public func connectToExisting() throws(StoreError) {
    try engine.storage.open(mayCreate: false)
    engine.update { $0.availability.hasConnected() }
  }

  /// Whether this process could use the store when it last tried; reading it tries nothing.
  public var health: StoreHealth { engine.look { $0.availability.health } }

  /// Writes what this process has not written yet, and keeps the file open.
  ///
  /// There is seldom anything to write. Failures and changes are written when they happen, and
  /// successes are counted in memory that all processes share. A process that cannot use that
  /// memory keeps its counts and writes them once a second, with its next call. A policy that could
  /// not be declared waits in the same way, and so does how a probe went that ended while the store
  /// could not be used: until it is written, the probe's slot stays taken.
  ///
  /// Call `flush()` before the process pauses its calls for long, or ends without ``close()``, as by
  /// `_exit`. The child of a fork flushes what it has counted itself, and leaves what it inherited to
  /// its parent.
  ///
  /// - Throws: `StoreError` if there is something to write and the store cannot be used, or another
  ///   process locks it for longer than ``StoreOptions/lockTimeout``. The rest is kept for the next
  ///   attempt.
  public func flush() throws(StoreError) { try engine.flush() }

  /// Writes what this process has not written yet and closes the file; the next use reopens it.
  ///
  /// It writes the same as ``flush()``, as far as that is possible now. If the store could not be used
  /// before, it waits no more than a moment for it.
  ///
  /// This also happens when the last reference to the store and its breakers goes away. A program
  /// that keeps them until it exits should call `close()` first, so that the totals of its last
  /// second are not lost. A process that is killed loses them only where it could not use the
  /// shared counters.
  public func close() { engine.close() }

  /// Closes the store so that nothing opens it again, provided that no code uses it any more.
  package func closeForGood() { engine.closeForGood() }

  /// Sends away all callers that wait for room, from now on.
  package func endWaits() { engine.endWaits() }
}

/// Diagnosing and repairing a store.
extension SharedStore {
  /// Checks everything that the store depends on, and changes nothing.
  ///
  /// The checks cover the files and their permissions, the file system, SQLite, the tables and
  /// every row, the log, the counters, and the processes that have the store open. They take a few
  /// seconds for a large store, and never more than about ten. If this process forks meanwhile, the
  /// fork waits for the examination, which then ends soon.
  ///
  /// ```swift
  /// for finding in try store.examine() where !finding.isWell {
  ///   print("\(finding.check): \(finding.found)")
  /// }
  /// ```
  ///
  /// - Parameter isAlone: Whether nothing else in this process uses the store meanwhile, as in a
  ///   command that only diagnoses. Then the examination leaves no trace, not even a reader's mark.
  ///   Do not say so otherwise: whatever else opens the store could not write to it.
  /// - Returns: The finding of each check, in a fixed order.
  /// - Throws: `StoreError` if there is no store, or this user may not read it.
  public func examine(isAlone: Bool = false) throws(StoreError) -> [StoreFinding] {
    try doctor(isAlone).examine()
  }

  /// Repairs what ``examine(isAlone:)`` finds, as far as possible, and examines the store again.
  ///
  /// No file is deleted: a damaged file is moved aside, under a name that holds the time. Processes
  /// that are using the store notice within a second. If this process forks meanwhile, the fork
  /// waits for the repair.
  ///
  /// - Parameter isAlone: Whether nothing else in this process uses the store meanwhile, as for
  ///   ``examine(isAlone:)``. Then a repair that finds nothing to do leaves no trace.
  /// - Returns: The finding of each check now, with the repair that was made.
  /// - Throws: `StoreError` if there is no store, or this user may not read it.
  public func repair(isAlone: Bool = false) throws(StoreError) -> [StoreFinding] {
    try doctor(isAlone).repair()
  }

  /// Copies the whole store, with its history, into one file, while other processes use it.
  ///
  /// The successes that only the counters know are in a second file, `-counters`, beside it. Copies that
  /// are there already are replaced once the new ones are complete.
  ///
  /// - Parameter path: The path of the copy.
  /// - Throws: `StoreError` if there is no store, or the copy cannot be written.
  public func copy(to path: String) throws(StoreError) {
    try doctor(false).copy(to: path)
  }

  /// Puts a copy, made by ``copy(to:)`` or by SQLite, into the place of the store, while processes use it.
  ///
  /// They notice within a second, and permits from before are refused. The store that was there is moved
  /// aside, with everything beside it.
  ///
  /// - Parameter path: The path of the copy, which stays as it is.
  /// - Returns: The path at which the earlier store is now; nil if there was none.
  /// - Throws: `StoreError` if the copy is not a sound store. Then nothing has changed.
  @discardableResult
  public func restore(from path: String) throws(StoreError) -> String? {
    try doctor(false).restore(from: path)
  }

  private func doctor(_ isAlone: Bool) throws(StoreError) -> StoreDoctor {
    if let refusal { throw refusal }
    return StoreDoctor(
      path: path, clock: engine.clock, program: engine.program,
      lockTimeout: engine.options.lockTimeout, room: engine.options.maximumBreakers,
      forks: engine.examinations, isAlone: isAlone)
  }
}

/// Ending a process in a test.
extension SharedStore {
  /// Functions to run before the process ends, and after it has ended; neither keeps the store
  /// alive.
  ///
  /// `before` writes the counts, because a real file would already have them. `after` forgets what
  /// would still permit calls from memory, and sends away the callers that wait for room.
  package var ending: (before: @Sendable () -> Void, after: @Sendable () -> Void) {
    (
      { [weak engine] in engine?.close() },
      { [weak engine] in
        engine?.update { $0.knowledge.forgetBaseline() }
        engine?.wakeWaiters()
      }
    )
  }
}
