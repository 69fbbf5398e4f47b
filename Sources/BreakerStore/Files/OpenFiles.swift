internal import CHost

/// The files of a store that a process has open: the store's own, its log, and the log's index.
struct OpenFiles {
  /// The path of the store, with its directories resolved.
  let path: String

  /// The path as the user named it, which may lead elsewhere later.
  private let named: String
  private let main: FileIdentity?
  private var log: FileIdentity?
  private var index: FileIdentity?

  /// The directory in which all of the files were last found.
  private var directory: DirectoryStamp?
  private let directoryPath: String

  /// The store's rights at the last change of its directory, for a store that may replace it.
  private(set) var rights: FileRights?

  /// Call this before the file is opened, so that a file which replaces it from then on is noticed.
  init(path: String, named: String) {
    self.path = path
    self.named = named
    directoryPath = StorePath.split(named).directory
    let status = FileStatus(of: path)
    main = status?.identity
    rights = status?.rights
  }

  /// Call this after the first read, which makes SQLite open the log.
  mutating func noteLog() {
    log = StoreFile.identity(of: logPath)
    index = StoreFile.identity(of: indexPath)
  }

  /// Marks the log as belonging to the file.
  ///
  /// - Throws: `StoreError` if the file or its log was replaced meanwhile, so the log may be
  ///   another file's.
  func mark(_ log: LogFile) throws(StoreError) {
    guard let main else { throw StoreError.replaced(path) }
    log.leave(.file(main))
    // Rule of order 16: a process that replaces the file either finds the mark or is noticed here.
    guard areNamed, log.isAt(logPath) else { throw StoreError.replaced(path) }
    guard !log.isInUse(withAnotherThan: main) else { throw LogOwner.leftLog(beside: path) }
  }

  /// Holds the locks by which SQLite shows others that the files are in use, in a way that lasts.
  ///
  /// The process loses SQLite's own ones without notice when any of its code closes a descriptor of
  /// the file (sqlite.org/howtocorrupt.html, 2.2). Without the one on the file, the next program that
  /// closes it would delete the log. Without the one on the index, the next program that opens it
  /// would cut it off, which kills every process that has it mapped. These last as long as SQLite has
  /// the files open. Where they cannot be had, SQLite's own have to do.
  func hold() {
    let ranges = [(main, Self.sharedBytes), (index, Self.indexInUse)].compactMap { file, bytes in
      file.map {
        sb_range(
          device: $0.device, inode: $0.inode, first: bytes.lowerBound, count: Int64(bytes.count))
      }
    }
    _ = unsafe sb_hold_open(ranges, ranges.count)
  }

  /// The bytes on which everybody who reads the file has a shared lock (os.h of SQLite).
  private static let sharedBytes: Range<Int64> = 0x4000_0002..<0x4000_0002 + 510

  /// The byte of the index on which everybody who uses it has a shared lock (os_unix.c of SQLite).
  private static let indexInUse: Range<Int64> = 128..<129

  /// The inode number of the store's file, which no copy of it has while this one exists.
  var mainNumber: Int64 { Int64(bitPattern: main?.inode ?? 0) }

  /// Whether the paths name the files that are open.
  private var areNamed: Bool {
    main == StoreFile.identity(of: named)
      && log == StoreFile.identity(of: named + StoreFile.logSuffix)
      && index == StoreFile.identity(of: named + StoreFile.indexSuffix)
  }

  private var logPath: String { path + StoreFile.logSuffix }
  private var indexPath: String { path + StoreFile.indexSuffix }

  /// Whether the paths still name the files that are open.
  ///
  /// No file can be replaced without a change of the directory, so as long as the directory's stamp
  /// is the same, nothing else needs checking.
  mutating func areCurrent() -> Bool {
    let stamp = DirectoryStamp(of: directoryPath)
    if let stamp, let directory, stamp.isSame(as: directory) { return true }
    guard areNamed else { return false }
    directory = stamp.flatMap { $0.isConclusive ? $0 : nil }
    rights = FileStatus(of: path)?.rights ?? rights
    return true
  }

  /// Sets aside a log never written with the file that is there now, and an index without its log.
  ///
  /// SQLite would assume that their pages belong to the new file (sqlite.org/howtocorrupt.html,
  /// 1.4). The numbers of our own log and index identify them only while they are open here; a
  /// later process finds other files.
  ///
  /// - Throws: If another process holds the lock of the store meanwhile.
  func setAsideLeftLog() throws(StoreError) {
    var access = StoreAccess()
    access.earlier = rights
    do throws(StoreError) {
      try StoreLock.held(path, access: access, atMost: .milliseconds(500)) { _ in
        let isOtherFile = main != StoreFile.identity(of: path)
        let isOtherLog = log != StoreFile.identity(of: logPath)
        if isOtherFile, log != nil, !isOtherLog { StoreFile.setAside(logPath) }
        if isOtherFile || isOtherLog, index != nil, index == StoreFile.identity(of: indexPath) {
          StoreFile.setAside(indexPath)
        }
      }
    } catch {
      // Of anything else, the next process that opens the file will find out.
      if error.kind == .busy { throw error }
    }
  }
}
