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
    let program = options.program.map { OutsideText.cut($0, to: 255) } ?? ProgramName.current()
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

  /// Closes the store so that nothing opens it again, provided that nobody uses it any more.
  package func closeForGood() { engine.closeForGood() }
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
