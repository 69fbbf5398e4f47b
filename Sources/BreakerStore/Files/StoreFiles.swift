/// Which files a session has open: the store's own, its log, and the log's index.
struct StoreFiles {
  /// Where the store really lies.
  let path: String

  /// The path that its user has named, which may lead elsewhere later.
  private let named: String
  private let main: FileIdentity?
  private var log: FileIdentity?
  private var index: FileIdentity?

  /// The directory in which all of them were found the last time.
  private var directory: DirectoryStamp?
  private let directoryPath: String

  /// The rights of the store when its directory was last seen to have changed, for the one that may
  /// have to take its place.
  private(set) var rights: FileRights?

  /// Before the file is opened: one that takes its place from now on is noticed as another one.
  init(path: String, named: String) {
    self.path = path
    self.named = named
    directoryPath = StorePath.split(named).directory
    let status = FileStatus(of: path)
    main = status?.identity
    rights = status?.rights
  }

  /// After the first read, which makes SQLite open the log.
  mutating func noteLog() {
    log = StoreFile.identity(of: logPath)
    index = StoreFile.identity(of: indexPath)
  }

  /// Marks the log as that of the file.
  ///
  /// - Throws: If the file or its log was replaced meanwhile, so that the log is another file's.
  func mark(_ log: LogFile) throws(StoreError) {
    guard let main else { throw LogOwner.replaced(path) }
    log.leave(.file(main))
    // In this order: a process that replaces the file either finds the mark or is found here.
    guard areNamed, log.isAt(logPath), !log.isInUse(withAnotherThan: main) else {
      throw LogOwner.replaced(path)
    }
  }

  /// The number of the store's file, which no copy of it has while this one exists.
  var mainNumber: Int64 { Int64(bitPattern: main?.inode ?? 0) }

  /// Whether the paths name what is open.
  private var areNamed: Bool {
    main == StoreFile.identity(of: named)
      && log == StoreFile.identity(of: named + StoreFile.logSuffix)
      && index == StoreFile.identity(of: named + StoreFile.indexSuffix)
  }

  private var logPath: String { path + StoreFile.logSuffix }
  private var indexPath: String { path + StoreFile.indexSuffix }

  /// Whether the paths still name the files that are open.
  ///
  /// No file is replaced without a change of the directory: as long as that is the same, it is all
  /// that has to be looked at.
  mutating func areCurrent() -> Bool {
    let stamp = DirectoryStamp(of: directoryPath)
    if let stamp, let directory, stamp.isSame(as: directory) { return true }
    guard areNamed else { return false }
    directory = stamp.flatMap { $0.isSettled ? $0 : nil }
    rights = FileStatus(of: path)?.rights ?? rights
    return true
  }

  /// Sets a log aside that was never written with the file that is there now, and a log's index
  /// without its log.
  ///
  /// SQLite would take their pages for those of the new file (sqlite.org/howtocorrupt.html, 1.4).
  /// Our own are known by their numbers as long as they are open; who comes later finds others.
  func setAsideLeftLog() {
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
      // The next process that opens the file finds out what is wrong with it, or beside it.
    }
  }
}
