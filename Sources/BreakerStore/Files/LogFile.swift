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

  /// Opens the log; for writing if this user may write to it and `mayWrite` says so.
  init(path: String, mayWrite: Bool = false) throws(StoreError) {
    self.path = path
    let flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
    let writable = mayWrite ? unsafe open(path, O_RDWR | flags) : -1
    descriptor = writable >= 0 ? writable : unsafe open(path, O_RDONLY | flags)
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
  func leave(_ mark: LogMark) { _ = sb_hold(descriptor, mark.byte) }

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

  /// Claims the right to write for this open file, which one at a time can have.
  ///
  /// - Returns: Whether others have it; if it cannot be had at all, for lack of rights, nobody has.
  func isClaimedByOthers() -> Bool {
    let code = sb_claim(descriptor, LogMark.writing)
    return code == EAGAIN || code == EACCES
  }

  func giveBackClaim() { sb_let_go(descriptor, LogMark.writing) }

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

  /// The byte that a process has to itself while it writes; no boot has so high a number.
  static let writing: Int64 = .max - 1

  var byte: Int64 {
    switch self {
    case .file(let identity):
      let mixed =
        identity.inode &* 0x9E37_79B9_7F4A_7C15 ^ identity.device &* 0xC2B2_AE3D_27D4_EB4F
      return Int64(bitPattern: mixed & UInt64(Self.boots - 1))
    case .boot(let number):
      // The last byte of the range cannot be locked.
      return Self.boots + Int64(bitPattern: UInt64(bitPattern: number) % UInt64(Self.boots - 1))
    }
  }
}
