internal import BreakerCore
internal import CHost
internal import CSQLite

/// An open store: a connection that writes, and one for reading while that one is busy.
@safe final class OpenStore {
  let path: String

  /// The files that are open, to be compared with those that the paths name later.
  var files: OpenFiles
  let writer: Connection

  /// Opened when it is first needed.
  ///
  /// Most processes never need it, and it costs a third of what opening a store costs.
  private var aside: Connection?

  private let lockTimeout: Duration
  private let clock: StoreClock

  /// The lineages of stores that were replaced or lost while this process had them open.
  private let lost: Set<Int64>

  /// The pages of the write-ahead log after the latest commit of this process.
  private let log: LogLength
  let logFile: LogFile

  /// The store's description of itself; written under both locks, and read under either.
  private(set) var header: StoreHeader

  /// Whether the store was found to be another one, or in another boot, than the header says.
  private(set) var isStale = false

  init(
    path: String, mayCreate: Bool, access: StoreAccess, lockTimeout: Duration,
    clock: StoreClock, lost: Set<Int64>
  ) throws(StoreError) {
    self.clock = clock
    self.lost = lost
    self.path = try StoreFile.prepare(
      path: path, mayCreate: mayCreate, access: access, lockTimeout: lockTimeout)
    // Rule of order 15: before anything is opened.
    files = OpenFiles(path: self.path, named: path)
    let directory = StorePath.split(self.path).directory
    try LogOwner.setAsideLeft(beside: self.path, lockTimeout: lockTimeout)
    var claimed = try ClaimedFiles(beside: self.path, in: directory)
    var isNew = false
    if claimed.areOpen {
      // SQLite itself creates the first log, perhaps of another user's file. Both go with the last
      // connection.
      isNew = try Migrator.prepare(self.path, lockTimeout: lockTimeout, clock: clock)
      claimed = try ClaimedFiles(beside: self.path, in: directory)
    }
    writer = try Connection(path: self.path, lockTimeout: lockTimeout)
    if try Migrator.bringUpToDate(writer, lockTimeout: lockTimeout, clock: clock) { isNew = true }
    try OpenStore.setUp(writer)
    try writer.refuseMoved()
    // The first read makes SQLite map the WAL-index, which the page of the WAL-index is to show.
    header = try StoreHeader.noted(on: writer).header
    files.noteLog()
    // Checked once they are open, because another process may have created a file before SQLite did.
    try PlantedFile.refuse(self.path, in: directory)
    try claimed.verify()
    logFile = try LogFile(path: self.path + StoreFile.logSuffix)
    try files.mark(logFile)
    files.hold(by: writer)
    self.lockTimeout = lockTimeout
    log = LogLength(
      pageSize: try writer.integer("PRAGMA page_size"),
      fileSystemSize: FileSystem.size(of: directory))
    unsafe log.install(on: writer.handle)
    try agree(mayDoWithout: true)
    // The file alone is then a store, even if its log is lost.
    if isNew { foldNewLog() } else if logFile.isEmpty { noteOriginOfNewLog() }
  }

  /// Makes a log that was created beside an existing file tell which store it belongs to.
  private func noteOriginOfNewLog() {
    do throws(StoreError) {
      try Patience.bounded(by: Patience.deadline(after: .milliseconds(10))) {
        () throws(StoreError) in
        try writer.statement(.begin).run()
        noteOrigin()
        unsafe sqlite3_exec(writer.handle, "ROLLBACK", nil, nil, nil)
      }
    } catch {
      // It is noted when the log has been moved into the file.
    }
  }

  /// Makes the log tell which store it belongs to, once all of it is in the file and on the disk; in a
  /// transaction to write, so that no process adopts the store meanwhile.
  private func noteOrigin() {
    let origin = LogOrigin(of: path, lineage: header.lineage)
    guard log.isFolded || logFile.isEmpty, header.isAgreed, logFile.origin != origin,
      files.areCurrent(),
      StoreHeader.lineage(ofFileAlone: path) == header.lineage
    else { return }
    logFile.origin = origin
  }

  /// This process's contribution when it agrees with the store on its header.
  private var terms: StoreHeader.Terms {
    StoreHeader.Terms(clock: clock, log: logFile, file: files.mainNumber, lost: lost)
  }

  /// Agrees with the store on its lineage and on the boot; under both locks.
  ///
  /// With `mayDoWithout`, a store that cannot be written now is not an error: the next transaction
  /// tries again.
  func agree(mayDoWithout: Bool) throws(StoreError) {
    var agreed = try StoreHeader.seen(on: writer, terms)
    let wasCopy = agreed.isCopy
    if agreed.hasNews(for: clock) {
      let isOptional = mayDoWithout && !agreed.isCopy
      do throws(StoreError) {
        agreed = try StoreHeader.agreed(
          on: writer, terms,
          until: Patience.deadline(after: isOptional ? .milliseconds(10) : lockTimeout))
      } catch {
        // Once a copy has its new lineage, permits of the old one are refused. A process that can only
        // read never gets a permit, so it need not wait for that.
        let canOnlyLook = error.kind == .readOnly || error.kind == .permissionDenied
        guard isOptional || mayDoWithout && canOnlyLook else { throw error }
      }
    }
    if agreed.isAgreed { logFile.leave(.boot(agreed.boot.number)) }
    header = agreed
    writer.header = agreed
    aside?.header = agreed
    if wasCopy, !agreed.isCopy { checkpoint(isUrgent: false) }
  }

  /// The connection that never writes, so that no reader waits for a writer; under the lock for
  /// reading.
  ///
  /// - Returns: The connection; nil if the store's files are being replaced, so that it may have
  ///   found others than the writer.
  func reader() throws(StoreError) -> Connection? {
    if let aside { return aside }
    let opened = try Connection(path: path, lockTimeout: lockTimeout)
    // SQLite opens what it may not write for reading alone; then nothing could move the log's pages.
    guard opened.isReadOnly == writer.isReadOnly else { throw StoreError.denied(path) }
    try OpenStore.setUp(opened)
    // The first read makes SQLite open the log.
    _ = try StoreHeader.noted(on: opened)
    guard !opened.hasMoved, files.areCurrent() else { return nil }
    // The connection has a descriptor of its own.
    files.hold(by: opened)
    opened.header = header
    aside = opened
    return opened
  }

  /// Whether the host is still in the boot in which the store was opened; only the clock of a test changes.
  func isOfThisBoot(_ clock: StoreClock) -> Bool {
    clock.isSystem || header.boot.id == clock.bootID
  }

  /// Makes sure, in a transaction, that the store is the one that this process opened.
  ///
  /// - Returns: The revision of the transaction.
  /// - Throws: If it is not; then the open store is stale and has to be opened again.
  @discardableResult
  func verify() throws(StoreError) -> Int64 {
    let (found, revision) = try StoreHeader.noted(on: writer)
    guard found.identity == header.identity, found.lineage == header.lineage,
      found.boot.number == header.notedBoot
    else {
      isStale = true
      throw StoreError.replaced(path)
    }
    return revision
  }

  static func setUp(_ connection: Connection) throws(StoreError) {
    try connection.execute(
      """
      PRAGMA synchronous=NORMAL; PRAGMA trusted_schema=OFF; PRAGMA wal_autocheckpoint=0;
      PRAGMA journal_size_limit=\(LogLength.limitInBytes * 4); PRAGMA cache_size=-512;
      PRAGMA mmap_size=0;
      """, to: "be set up")
    let mode = try connection.journalMode()
    let synchronous = try connection.integer("PRAGMA synchronous")
    let automatic = try connection.integer("PRAGMA wal_autocheckpoint")
    guard mode == Connection.demandedJournalMode, synchronous == 1, automatic == 0 else {
      throw StoreError(
        .other,
        "the store \(StoreError.visible(connection.path)) cannot be set up: its journal mode is"
          + " \(mode): set it to WAL, or move the file away so that a new one is created")
    }
  }

  /// Whether the write-ahead log has grown so long that it should be moved into the file.
  var isCheckpointDue: Bool { log.isDue }

  /// Moves the write-ahead log into the file; under both locks (rule of order 17).
  ///
  /// A checkpoint that overlaps a commit can damage a file with SQLite 3.7.0 to 3.51.2
  /// (sqlite.org/wal.html#walresetbug). So the writer holds the write lock while the reader's
  /// connection moves the pages: no commit of any program can overlap. If the lock cannot be taken or
  /// the pages cannot be moved, a later commit tries again.
  ///
  /// - Returns: Whether pages could be moved.
  @discardableResult
  func checkpoint(isUrgent: Bool) -> Bool {
    do throws(StoreError) {
      // Where reads overlap, the log never starts over by itself: this waits for those that have begun.
      if log.isTooLong {
        return try Patience.bounded(by: Patience.deadline(after: .milliseconds(250))) {
          () throws(StoreError) in
          try writer.claiming { () throws(StoreError) in movePagesAsWriter() }
        }
      }
      // Readers of this process wait meanwhile, so it waits briefly unless the log is overdue.
      let briefly = isUrgent || log.isOverdue ? lockTimeout : .milliseconds(10)
      return try Patience.bounded(by: Patience.deadline(after: briefly)) {
        () throws(StoreError) in
        do throws(StoreError) {
          guard let reader = try reader() else { return false }
          try writer.statement(.begin).run()
          return movePages(with: reader)
        } catch {
          guard error.isDenial else { throw error }
          return try writer.claiming { () throws(StoreError) in movePagesAsWriter() }
        }
      }
    } catch {
      return false
    }
  }

  /// Moves the pages of the log on the writer's connection.
  ///
  /// A process does so that has dropped the right to open another one since it opened the store, and one whose log takes
  /// too much of a small disk: the next commit starts it over then.
  ///
  /// In this mode SQLite itself takes the write lock first. It goes on without the lock only if a program
  /// that does not use this library holds it during the whole wait.
  private func movePagesAsWriter() -> Bool {
    var pages: Int32 = 0
    var moved: Int32 = 0
    let code = unsafe sqlite3_wal_checkpoint_v2(
      writer.handle, "main",
      log.isTooLong ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_FULL, &pages, &moved)
    log.checkpointed(isFolded: code == SQLITE_OK && pages == moved)
    return code == SQLITE_OK
  }

  /// Moves the pages of the log while the writer holds the write lock, and gives the lock back.
  private func movePages(with reader: Connection) -> Bool {
    var pages: Int32 = 0
    var moved: Int32 = 0
    let code = unsafe sqlite3_wal_checkpoint_v2(
      reader.handle, "main", SQLITE_CHECKPOINT_PASSIVE, &pages, &moved)
    log.checkpointed(isFolded: code == SQLITE_OK && pages == moved)
    noteOrigin()
    unsafe sqlite3_exec(writer.handle, "ROLLBACK", nil, nil, nil)
    return code == SQLITE_OK
  }

  /// Moves the tables of a new store into its file, once no process reads the earlier state.
  private func foldNewLog() {
    let deadline = Patience.deadline(after: lockTimeout)
    while checkpoint(isUrgent: true), !log.isFolded, Patience.pause(until: deadline) {}
  }

  /// Starts the log over once all of it has been moved into the file; the caller holds both locks.
  ///
  /// Only a commit does that. Without it, the next process, if it is alone, does not know what was
  /// moved: it appends to the old log, and moves all of it again.
  func startLogOver(at milliseconds: Int64) {
    guard log.isFolded else { return }
    do throws(StoreError) {
      try Patience.bounded(by: Patience.deadline(after: .milliseconds(10))) {
        () throws(StoreError) in
        try writer.write { () throws(StoreError) in
          try Self.proveWritable(on: writer, at: milliseconds)
        }
      }
    } catch {
      // The next commit starts it over.
    }
  }

  /// Writes a value that no one depends on, inside the caller's transaction.
  static func proveWritable(
    on connection: Connection, at milliseconds: Int64
  ) throws(StoreError) {
    let prove = try connection.statement(.proveWritable)
    prove.bind(1, milliseconds)
    try prove.run()
  }
}
