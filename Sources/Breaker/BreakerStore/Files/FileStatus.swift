internal import Glibc

/// One file, under any of its names.
struct FileIdentity: Hashable {
  var device: UInt64
  var inode: UInt64
}

/// The status of a file, or of a link itself, as the system reports it.
struct FileStatus: Hashable {
  var rights: FileRights
  var identity: FileIdentity
  var size: Int64
  var isRegular: Bool
  var isLink: Bool

  /// How many names the file has.
  var names: UInt64

  init?(of path: String) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else { return nil }
    self.init(status)
  }

  init(_ status: stat) {
    rights = FileRights(
      mode: status.st_mode & 0o7777, user: status.st_uid, group: status.st_gid)
    identity = FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    size = Int64(status.st_size)
    isRegular = status.st_mode & S_IFMT == S_IFREG
    isLink = status.st_mode & S_IFMT == S_IFLNK
    names = UInt64(status.st_nlink)
  }
}

/// The rights of a file: its owner, its group, and its permission bits.
struct FileRights: Hashable {
  var mode: UInt32
  var user: UInt32
  var group: UInt32

  /// An owner or a group that stays as the system set it (chown(2)).
  static let unchanged = UInt32.max

  /// These rights, reduced so that each user may both read and write the file, or neither.
  ///
  /// A user who may only read a file can still lock it, and so block its writers.
  var ofUsers: FileRights {
    var rights = self
    rights.mode = mode & 0o666 | 0o600
    for shift: UInt32 in [3, 0] where rights.mode >> shift & 0o6 != 0o6 {
      rights.mode &= ~(0o6 << shift)
    }
    return rights
  }

  /// The mode as `chmod` takes it.
  var octal: String { String(mode, radix: 8) }

  var isGroupWritable: Bool { mode & 0o060 == 0o060 }
  var isWritableForAll: Bool { mode & 0o006 == 0o006 }
}

extension FileRights {
  /// Gives an open file these rights.
  func give(to descriptor: Int32, at path: String) throws(StoreError) {
    guard giveOwners(to: descriptor) else {
      throw StoreError(errno: errno, doing: "change the group of", path: path)
    }
    guard fchmod(descriptor, mode & 0o777) == 0 else {
      throw StoreError(errno: errno, doing: "change the mode of", path: path)
    }
  }

  /// Gives an open file as many of these rights as this user may give.
  ///
  /// If the group cannot be set, the file's group gets no rights: they are meant for another one.
  func giveWhatIsAllowed(to descriptor: Int32) {
    fchmod(descriptor, mode & (giveOwners(to: descriptor) ? 0o777 : 0o707))
  }

  private func giveOwners(to descriptor: Int32) -> Bool {
    // Only root can give a file to another user. A member of the group can still share it.
    fchown(descriptor, user, group) == 0 || fchown(descriptor, Self.unchanged, group) == 0
  }
}

/// Creates the files of a store.
enum NewFile {
  /// Creates a file and opens it; no other process can open it before it has its rights.
  ///
  /// - Parameters:
  ///   - path: Where to create the file; nothing may be there yet.
  ///   - rights: The rights of the file.
  ///   - mustHave: Whether to remove the file again if this user may not give it all of these
  ///     rights.
  ///   - what: The action that an error message names.
  /// - Returns: The descriptor, which the caller must close.
  /// - Throws: `StoreError` if the file cannot be created, or not with the rights that it must
  ///   have.
  static func create(
    _ path: String, _ rights: FileRights, mustHave: Bool, doing what: String = "create"
  ) throws(StoreError) -> Int32 {
    let flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
    let descriptor = unsafe open(path, flags, 0o600)
    guard descriptor >= 0 else { throw StoreError(errno: errno, doing: what, path: path) }
    guard mustHave else {
      rights.giveWhatIsAllowed(to: descriptor)
      return descriptor
    }
    do throws(StoreError) {
      try rights.give(to: descriptor, at: path)
      return descriptor
    } catch {
      close(descriptor)
      unsafe unlink(path)
      throw error
    }
  }
}

/// The contents of a directory.
enum DirectoryListing {
  /// The names in a directory; none if it cannot be read.
  static func names(_ path: String) -> [String] { found(path) ?? [] }

  /// Whether every name in a readable directory begins with this one.
  static func isOnly(of name: String, _ directory: String) -> Bool {
    found(directory)?.allSatisfy { $0.hasPrefix(name) } ?? false
  }

  private static func found(_ path: String) -> [String]? {
    guard let stream = unsafe opendir(path) else { return nil }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }

  /// The target of a link; empty if it cannot be read.
  static func target(_ path: String) -> String {
    var target = [CChar](repeating: 0, count: 4_096)
    let length = max(0, unsafe readlink(path, &target, target.count))
    return String(decoding: target[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

/// Writes the names in a directory through to the disk.
///
/// A new file survives a power cut only once the directory that contains it is on the disk, and so
/// does a new directory.
enum DirectorySync {
  /// Returns 0 or the system's error number.
  static func run(_ path: String) -> Int32 {
    let directory = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { return errno }
    defer { close(directory) }
    return fsync(directory) == 0 ? 0 : errno
  }
}
