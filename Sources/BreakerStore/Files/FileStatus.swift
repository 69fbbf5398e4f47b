internal import Glibc

/// One file, whatever its name.
struct FileIdentity: Hashable {
  var device: UInt64
  var inode: UInt64
}

/// What the system reports about a file, or about a link itself.
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
