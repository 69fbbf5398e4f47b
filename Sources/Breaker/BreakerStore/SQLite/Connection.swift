internal import CHost
internal import CSQLite

extension SQLiteStorage {
  /// The version of the SQLite library that is in use.
  package static var libraryVersion: String { unsafe String(cString: sqlite3_libversion()) }
}

/// One open connection to an SQLite file; used by one thread at a time, under its store's lock.
@safe final class Connection {
  let path: String
  let handle: OpaquePointer
  private let patience: Patience
  private var statements = [Statement?](repeating: nil, count: Query.allCases.count)

  /// Whether SQLite assumes that nothing changes the file.
  private var isImmutable = false

  /// The store's header; nil until it is known.
  var header: StoreHeader?

  /// Opens an existing file; a symbolic link at its path is refused.
  ///
  /// - Parameters:
  ///   - path: The path of the file.
  ///   - lockTimeout: How long it waits for others.
  /// - Throws: Why the file cannot be opened.
  convenience init(path: String, lockTimeout: Duration) throws(StoreError) {
    try self.init(path, as: path, SQLITE_OPEN_READWRITE, lockTimeout: lockTimeout)
  }

  /// Opens an existing file without creating or changing any file (sqlite.org/uri.html).
  convenience init(reading path: String, way: String, lockTimeout: Duration) throws(StoreError) {
    let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/".utf8)
    var uri = "file:"
    for byte in path.utf8 {
      let digits = String(byte, radix: 16)
      uri +=
        plain.contains(byte)
        ? String(UnicodeScalar(byte)) : "%" + (digits.count < 2 ? "0" : "") + digits
    }
    try self.init(
      path, as: "\(uri)?\(way)", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, lockTimeout: lockTimeout)
    isImmutable = way == Self.immutable
  }

  /// Opens an empty database in memory, which has no file and so no other process that uses it.
  static func inMemory() throws(StoreError) -> Connection {
    try Connection("in memory", as: ":memory:", SQLITE_OPEN_READWRITE, lockTimeout: .zero)
  }

  /// The `way` that reads the file alone, without its log and without a lock.
  static let immutable = "immutable=1"

  private init(
    _ path: String, as name: String, _ access: Int32, lockTimeout: Duration
  ) throws(StoreError) {
    self.path = path
    var opened: OpaquePointer?
    let flags = access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW
    // The usual VFS would neither claim the right to write nor end its sleeps in time.
    let vfs = unsafe sb_vfs()
    let code = unsafe vfs == nil ? SQLITE_NOMEM : sqlite3_open_v2(name, &opened, flags, vfs)
    guard code == SQLITE_OK, let opened = unsafe opened else {
      let message = unsafe opened.map { unsafe String(cString: sqlite3_errmsg($0)) } ?? ""
      let system = unsafe opened.map { unsafe sqlite3_system_errno($0) } ?? 0
      unsafe sqlite3_close_v2(opened)
      throw StoreError(
        sqlite: code, during: "be opened", message: message, system: system, path: path)
    }
    unsafe handle = opened
    patience = Patience(timeout: lockTimeout)
    // The wait is installed first, because everything after it may find the file busy.
    unsafe patience.install(on: opened)
    unsafe sb_no_checkpoint_on_close(opened)
    unsafe sb_persist_wal(opened)
  }

  deinit {
    // Finalized first. Otherwise the connection would outlive the busy handler that it calls.
    statements = []
    unsafe sqlite3_close_v2(handle)
  }

  /// The header to read rows by.
  func header(_ clock: StoreClock) -> StoreHeader { header ?? StoreHeader.unknown(clock) }

  /// Whether SQLite could open the file for reading alone.
  var isReadOnly: Bool { unsafe sqlite3_db_readonly(handle, "main") == 1 }

  /// Refuses a file that is no longer the one at its path, because the log there is another file's.
  func refuseMoved() throws(StoreError) {
    guard !hasMoved else { throw StoreError.replaced(path) }
  }

  /// Whether the path no longer names the file that is open.
  var hasMoved: Bool {
    var hasMoved: Int32 = 0
    unsafe sb_has_moved(handle, &hasMoved)
    return hasMoved != 0
  }

  /// Lets SQLite delete an empty log, and its index, when the file is closed.
  ///
  /// Looking into a database of another program creates both if it keeps a log. SQLite deletes them
  /// only if no other process has the file open.
  func leaveNoEmptyLog() {
    guard FileStatus(of: path + StoreFile.logSuffix)?.size == 0 else { return }
    leaveNoLog()
  }

  /// Lets SQLite move the log into the file when the last connection to it is closed, and delete it.
  func leaveNoLog() { unsafe sb_delete_wal_on_close(handle) }

  func execute(_ sql: String, to step: String = "be changed") throws(StoreError) {
    let code = unsafe sqlite3_exec(handle, sql, nil, nil, nil)
    guard code == SQLITE_OK else { throw error(code, during: step) }
  }

  func prepare(_ sql: String) throws(StoreError) -> Statement {
    var prepared: OpaquePointer?
    let code = unsafe sqlite3_prepare_v3(
      handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
    guard code == SQLITE_OK, let prepared = unsafe prepared else {
      throw error(code, during: "be read")
    }
    return unsafe Statement(prepared, on: self)
  }

  /// The statement of a query, prepared at its first use.
  func statement(_ query: Query) throws(StoreError) -> Statement {
    if let statement = statements[query.rawValue] { return statement }
    let statement = try prepare(query.sql)
    statements[query.rawValue] = statement
    return statement
  }

  /// The first column of the only row that a query returns.
  func integer(_ sql: String) throws(StoreError) -> Int64 {
    try prepare(sql).rows { $0.integer(0) }.first ?? 0
  }

  // The result of a statement such as `PRAGMA journal_mode=WAL` is final only once the statement
  // has run to its end, where it commits.
  func text(_ sql: String) throws(StoreError) -> String {
    try prepare(sql).rows { $0.text(0) ?? "" }.first ?? ""
  }

  /// How many rows were written, including those of transactions that were rolled back.
  var writtenRows: Int32 { unsafe sqlite3_total_changes(handle) }

  /// Runs `body` in a transaction that holds the write lock from the start.
  ///
  /// A transaction that reads before it writes would fail at once if another process had written in
  /// between, however long it was prepared to wait.
  func write<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
    try transaction(.begin, body)
  }

  /// Claims the right to write as long as a body runs, for a checkpoint that goes on without SQLite's lock
  /// if it cannot have it in time.
  ///
  /// Everything else claims wherever SQLite takes that lock (`CHost/vfs.c`). The lock alone is not enough.
  /// The process loses it without notice when any of its code closes a descriptor of the log's index
  /// (sqlite.org/howtocorrupt.html, 2.2). Another process could then write at the same time, or recover the
  /// index as it is read and lose what was written meanwhile. The claim is a lock that belongs to an open
  /// file of this connection alone, so it outlasts that.
  func claiming<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
    guard patience.outlasts({ unsafe sb_claim_to_write(handle) != SQLITE_OK }) else {
      throw error(SQLITE_BUSY, during: "be changed")
    }
    defer { unsafe sb_give_back_claim(handle) }
    return try body()
  }

  /// Runs `body` on one snapshot of the file.
  func read<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
    try transaction(.beginReading, body)
  }

  /// If the body throws, its changes are rolled back, and its error is thrown even if that fails.
  private func transaction<Result>(
    _ begin: Query, _ body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    leaveTransaction()
    try statement(begin).run()
    do throws(StoreError) {
      let result = try body()
      try statement(.commit).run()
      return result
    } catch {
      leaveTransaction()
      throw error
    }
  }

  /// Ends a transaction that failed, unless SQLite has already done so.
  ///
  /// The caller must learn the first error. If even the rollback fails, for lack of memory, the
  /// next transaction tries it again.
  private func leaveTransaction() {
    guard unsafe sqlite3_get_autocommit(handle) == 0 else { return }
    unsafe sqlite3_exec(handle, "ROLLBACK", nil, nil, nil)
  }

  func error(_ code: Int32, during step: String) -> StoreError {
    // An error that did not come from the connection's own calls has left no message with it.
    let isLatest = unsafe sqlite3_extended_errcode(handle) == code
    let message = unsafe String(cString: isLatest ? sqlite3_errmsg(handle) : sqlite3_errstr(code))
    let system = isLatest ? unsafe sqlite3_system_errno(handle) : 0
    return StoreError(sqlite: code, during: step, message: message, system: system, path: path)
  }
}

/// The journal mode of a file.
extension Connection {
  /// The mode of every store: without a write-ahead log no process would see another's changes.
  static let demandedJournalMode = "wal"

  /// The journal mode that a program which opens the file will find.
  func journalMode() throws(StoreError) -> String {
    guard isImmutable else { return try text("PRAGMA journal_mode") }
    // SQLite keeps no journal for an immutable file, so only the header tells: both of its format
    // versions are 2 if there is a write-ahead log (sqlite.org/fileformat2.html, 1.3.3).
    guard let versions = header(at: 18, count: 2) else {
      throw error(SQLITE_IOERR, during: "be read")
    }
    return versions == [2, 2] ? Self.demandedJournalMode : "delete"
  }

  /// Bytes of the file's header; nil if they cannot be read.
  ///
  /// Read through SQLite, because closing any other descriptor of the file would drop its locks.
  func header(at offset: Int64, count: Int) -> [UInt8]? {
    var file: UnsafeMutablePointer<sqlite3_file>?
    var bytes = [UInt8](repeating: 0, count: count)
    unsafe sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &file)
    guard let file = unsafe file, let read = unsafe file.pointee.pMethods?.pointee.xRead,
      unsafe read(file, &bytes, Int32(count), offset) == SQLITE_OK
    else { return nil }
    return bytes
  }
}
