internal import CHost
internal import Glibc
internal import Synchronization

/// The write-ahead log, opened again to mark it, and to sync it while the store is in use.
///
/// None of SQLite's locks is on this file, so closing it drops none of them
/// (sqlite.org/howtocorrupt.html, 2.2).
final class LogFile: Sendable {
  private let path: String
  private let descriptor: Int32
  private let isFound = Atomic<Bool>(false)

  init(path: String) throws(StoreError) {
    self.path = path
    descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else { throw StoreError(errno: errno, doing: "open the log", path: path) }
  }

  deinit { close(descriptor) }

  /// Writes the latest commits through to the disk; needs no lock.
  func sync() -> StoreError? {
    guard fdatasync(descriptor) == 0, isFound.load(ordering: .relaxed) || syncDirectory() else {
      return StoreError(errno: errno, doing: "write to the disk", path: path)
    }
    return nil
  }

  /// Notifies processes that watch the log that there are events to read.
  ///
  /// Every user who may write to the file may set its time to now.
  func touch() { futimens(descriptor, nil) }

  /// Runs once: a new log survives a power cut only once its directory is on the disk.
  private func syncDirectory() -> Bool {
    let code = DirectorySync.run(StorePath.split(path).directory)
    errno = code
    if code == 0 { isFound.store(true, ordering: .relaxed) }
    return code == 0
  }
}

/// Marks, which are locks that this open file keeps until it is closed.
extension LogFile {
  /// Leaves a mark for others; a file system without locks could not hold a store either.
  func leave(_ mark: LogMark) { _ = sb_share_byte(descriptor, mark.byte) }

  /// Whether another open file, in this process or any other, has left a mark.
  func isHeldByOthers(_ mark: LogMark) -> Bool {
    sb_is_held(descriptor, mark.byte, mark.byte + 1) != 0
  }

  /// Whether others use the log together with a file other than this one.
  func isInUse(withAnotherThan file: FileIdentity) -> Bool {
    let own = LogMark.file(file).byte
    return sb_is_held(descriptor, 0, own) != 0
      || sb_is_held(descriptor, own + 1, LogMark.boots) != 0
  }

  /// Whether any process uses the log.
  fileprivate var isInUse: Bool { sb_is_held(descriptor, 0, LogMark.boots) != 0 }

  /// The store that the log says it belongs to; nil if it does not say.
  ///
  /// It outlives every process, but not every file system keeps it.
  var origin: LogOrigin? {
    get {
      var origin = sb_origin()
      return unsafe sb_origin_in(descriptor, &origin) != 0 ? LogOrigin(origin) : nil
    }
    set {
      if var origin = newValue?.value {
        unsafe sb_set_origin(descriptor, &origin)
      } else {
        sb_set_origin(descriptor, nil)
      }
    }
  }

  /// Takes the origin away.
  ///
  /// - Throws: If it is still there, because a log that belongs to the store would be set aside by it.
  func forgetOrigin() throws(StoreError) {
    origin = nil
    guard origin == nil else { throw StoreError(errno: EACCES, doing: "mark the log", path: path) }
  }

  var isEmpty: Bool { lseek(descriptor, 0, SEEK_END) == 0 }

  /// Whether a path names this file.
  func isAt(_ path: String) -> Bool {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return false }
    return StoreFile.identity(of: path)
      == FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
  }
}

/// A byte of the log that a process locks to tell others something while it has the store open.
///
/// The byte lies far beyond the end of the file. Every process of the host sees the locks, in every
/// PID namespace, with or without `/proc`, and on every local file system. The kernel releases a
/// lock when its holder ends.
enum LogMark: Hashable {
  /// The log is in use with this file.
  case file(FileIdentity)

  /// A process has agreed with the store that this is the current boot.
  case boot(Int64)

  /// Where the marks of boots begin; those of files come before them.
  static let boots: Int64 = 1 << 62

  var byte: Int64 {
    switch self {
    case .file(let identity):
      let mixed =
        identity.inode &* 0x9E37_79B9_7F4A_7C15 ^ identity.device &* 0xC2B2_AE3D_27D4_EB4F
      return Int64(bitPattern: mixed & UInt64(Self.boots - 1))
    case .boot(let number):
      // The last byte of the range cannot be locked. Writers claim on the byte before it (`CHost/vfs.c`), and
      // no boot has so high a number.
      return Self.boots + Int64(bitPattern: UInt64(bitPattern: number) % UInt64(Self.boots - 1))
    }
  }
}

/// The store that a log was written with.
struct LogOrigin: Equatable {
  fileprivate let value: sb_origin

  fileprivate init(_ value: sb_origin) { self.value = value }

  /// The origin of a log that is used with a store.
  init(of store: String, lineage: Int64) { value = unsafe sb_origin_of(store, lineage) }

  /// Whether it is the store at a path, as far as the file alone tells.
  ///
  /// A file that was replaced by a copy of itself has its lineage, and needs its log.
  func isOf(_ store: String) -> Bool {
    let own = LogOrigin(of: store, lineage: value.lineage)
    if own.value.born != 0, own == self { return true }
    let lineage = StoreHeader.lineage(ofFileAlone: store)
    return lineage == nil || lineage == value.lineage
  }

  static func == (left: LogOrigin, right: LogOrigin) -> Bool {
    left.value.lineage == right.value.lineage && left.value.inode == right.value.inode
      && left.value.born == right.value.born
  }
}

/// Which file a log belongs to.
///
/// SQLite assumes that a log belongs to whatever file lies beside it
/// (sqlite.org/howtocorrupt.html, 1.4). Every process that uses a store therefore marks the log
/// with the file that it uses it with. If the file was replaced and others have not noticed yet, a
/// process that starts meanwhile finds out from the marks. If no process uses the log any more, its
/// origin tells.
enum LogOwner {
  /// Whether the log beside a store was written with another one.
  static func isOfAnother(beside store: String) -> Bool {
    guard let main = StoreFile.identity(of: store), let log = log(beside: store) else {
      return false
    }
    // In this order, a user that ends meanwhile leaves the question to the origin.
    if log.isInUse(withAnotherThan: main) { return true }
    guard !log.isInUse, !log.isEmpty, let origin = log.origin else { return false }
    return !origin.isOf(store)
  }

  /// Whether any process uses the store at a path.
  static func isInUse(beside store: String) -> Bool { log(beside: store)?.isInUse == true }

  /// The log beside a store; nil if there is none that can be opened.
  static func log(beside store: String) -> LogFile? {
    do throws(StoreError) {
      return try LogFile(path: store + StoreFile.logSuffix)
    } catch {
      return nil
    }
  }

  /// Whether there is an index without the log that it describes.
  ///
  /// Processes that had the log open when it was deleted still use the index. To SQLite it would
  /// say that a new log has all that the deleted one had.
  static func isIndexAlone(beside store: String) -> Bool {
    // SQLite creates the log before its index and deletes it after, so the index comes first here.
    StoreFile.identity(of: store + StoreFile.indexSuffix) != nil
      && StoreFile.identity(of: store + StoreFile.logSuffix) == nil
  }

  /// Moves another file's log, or an index without a log, out of the way before SQLite sees it.
  static func setAsideLeft(beside store: String, lockTimeout: Duration) throws(StoreError) {
    guard isOfAnother(beside: store) || isIndexAlone(beside: store) else { return }
    try StoreLock.held(store, atMost: lockTimeout) { _ throws(StoreError) in
      if isIndexAlone(beside: store) { StoreFile.setAside(store + StoreFile.indexSuffix) }
      // The first process to notice may have started another log.
      guard isOfAnother(beside: store) else { return }
      for suffix in [StoreFile.logSuffix, StoreFile.indexSuffix] {
        StoreFile.setAside(store + suffix)
      }
      guard !isOfAnother(beside: store) else { throw leftLog(beside: store) }
    }
  }

  /// The error for a store beside which processes still use the log of an earlier file.
  static func leftLog(beside store: String) -> StoreError {
    StoreError(
      .busy,
      "the store \(StoreError.visible(store)) was replaced, and the old file's log is still in"
        + " its place: try again")
  }
}
