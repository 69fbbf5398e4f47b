internal import CHost
internal import Glibc

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
  mutating func mark(_ log: LogFile) throws(StoreError) {
    guard let main else { throw StoreError.replaced(path) }
    log.leave(.file(main))
    // Rule of order 16: a process that replaces the file either finds the mark or is noticed here.
    guard areCurrent(), log.isAt(logPath) else { throw StoreError.replaced(path) }
    guard !log.isInUse(withAnotherThan: main) else { throw LogOwner.leftLog(beside: path) }
  }

  /// Holds the locks by which SQLite shows others that the files are in use, in a way that lasts.
  ///
  /// The process loses SQLite's own locks without notice when any of its code closes a descriptor of
  /// the file (sqlite.org/howtocorrupt.html, 2.2). Without the lock on the file, the next program
  /// that closes it would delete the log. Without the lock on the index, the next program that opens
  /// it would cut it off, which kills every process that has it mapped. The locks taken here last as
  /// long as SQLite has the files open. If they cannot be taken, only SQLite's own are left.
  func hold(by connection: Connection) {
    let ranges = [(main, Self.sharedBytes), (index, Self.indexInUse)].compactMap { file, bytes in
      file.map {
        sb_range(
          device: $0.device, inode: $0.inode, first: bytes.lowerBound, count: Int64(bytes.count))
      }
    }
    _ = unsafe sb_hold_open(connection.handle, ranges, ranges.count)
  }

  /// The bytes on which every reader of the file has a shared lock (os.h of SQLite).
  private static let sharedBytes: Range<Int64> = 0x4000_0002..<0x4000_0002 + 510

  /// The byte of the index on which every user of it has a shared lock (os_unix.c of SQLite).
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
      // The next process that opens the file will find out about anything else.
      if error.kind == .busy { throw error }
    }
  }
}

/// Changes when a name in a directory is added, removed or given to another file.
///
/// It is the directory's change time, which no program can set. The modification time would not do,
/// because `cp -a`, `rsync -a` and `touch -d` restore it.
struct DirectoryStamp {
  private let identity: FileIdentity
  private let seconds: Int
  private let nanoseconds: Int
  private let taken: Clocks

  /// The wall clock, from which a file system takes its times, and what shows that it has been set.
  struct Clocks {
    var wall: timespec

    /// How far the wall clock is ahead of the clock that cannot be set, in nanoseconds.
    var lead: Int

    init(wall: timespec, monotonic: timespec) {
      self.wall = wall
      lead =
        (wall.tv_sec &- monotonic.tv_sec) &* 1_000_000_000 &+ wall.tv_nsec &- monotonic.tv_nsec
    }

    /// The clocks now, read from memory without a system call.
    static var now: Clocks {
      var wall = timespec()
      var monotonic = timespec()
      unsafe clock_gettime(CLOCK_REALTIME_COARSE, &wall)
      unsafe clock_gettime(CLOCK_MONOTONIC_COARSE, &monotonic)
      return Clocks(wall: wall, monotonic: monotonic)
    }
  }

  init?(of path: String) {
    var status = stat()
    // Passed directly, a string would be copied at each call.
    guard unsafe path.withCString({ unsafe stat($0, &status) }) == 0 else { return nil }
    self.init(
      of: FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)),
      changed: status.st_ctim, taken: .now)
  }

  init(of identity: FileIdentity, changed: timespec, taken: Clocks) {
    self.identity = identity
    seconds = changed.tv_sec
    nanoseconds = changed.tv_nsec
    self.taken = taken
  }

  /// Whether no name has changed since an earlier stamp, which must have been conclusive.
  func isSame(as earlier: DirectoryStamp) -> Bool {
    identity == earlier.identity && seconds == earlier.seconds
      && nanoseconds == earlier.nanoseconds
      // After the clock is set back, a change can get the time of an earlier one.
      && (taken.lead &- earlier.taken.lead).magnitude < UInt(Self.longestStep / 2)
  }

  /// Whether any later change will be distinguishable from the latest one.
  ///
  /// File systems take their times from a clock that moves in steps, some of a whole second, so two
  /// changes in quick succession may have the same time.
  var isConclusive: Bool {
    let passed = taken.wall.tv_sec.subtractingReportingOverflow(seconds)
    guard !passed.overflow, passed.partialValue < 3 else { return passed.partialValue > 0 }
    guard passed.partialValue >= 0, nanoseconds != 0 else { return false }
    return passed.partialValue * 1_000_000_000 + taken.wall.tv_nsec - nanoseconds
      > Self.longestStep
  }

  /// The longest step, in nanoseconds, of a clock that does not move in whole seconds.
  private static let longestStep = 50_000_000
}
