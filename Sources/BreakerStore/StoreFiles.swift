/// Which files a session has open: the store's own, its log, and the log's index.
struct StoreFiles {
  let path: String
  private let main: FileIdentity?
  private var log: FileIdentity?
  private var index: FileIdentity?

  /// Before the file is opened: one that takes its place from now on is noticed as another one.
  init(path: String) {
    self.path = path
    main = StoreFile.identity(of: path)
  }

  /// After the first read, which makes SQLite open the log.
  mutating func noteLog() {
    log = StoreFile.identity(of: logPath)
    index = StoreFile.identity(of: indexPath)
  }

  private var logPath: String { path + StoreFile.logSuffix }
  private var indexPath: String { path + StoreFile.indexSuffix }

  /// Whether the paths still name the files that are open.
  var areCurrent: Bool {
    main == StoreFile.identity(of: path) && log == StoreFile.identity(of: logPath)
      && index == StoreFile.identity(of: indexPath)
  }

  /// Sets a log aside that was never written with the file that is there now, and a log's index
  /// without its log.
  ///
  /// SQLite would take their pages for those of the new file (sqlite.org/howtocorrupt.html, 1.4).
  /// Our own are known by their numbers as long as they are open; who comes later finds others.
  func setAsideLeftLog() {
    do throws(StoreError) {
      try DirectoryLock.held(StorePath.split(path).directory, atMost: .milliseconds(500)) {
        let isOtherFile = main != StoreFile.identity(of: path)
        let isOtherLog = log != StoreFile.identity(of: logPath)
        if isOtherFile, log != nil, !isOtherLog { StoreFile.setAside(logPath) }
        if isOtherFile || isOtherLog, index != nil, index == StoreFile.identity(of: indexPath) {
          StoreFile.setAside(indexPath)
        }
      }
    } catch {
      // Whoever opens the file next finds out what is wrong with it, or with its directory.
    }
  }
}
