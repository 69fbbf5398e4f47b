internal import Glibc

/// Where a store that is there really lies, and what the system tells of it.
struct StorePlace {
  /// The path with its directories resolved.
  let path: String
  let directory: String
  let file: FileStatus
  let ofDirectory: FileStatus

  /// Finds the store, and opens nothing.
  ///
  /// - Throws: What keeps it from being looked at.
  init(_ path: String) throws(StoreError) {
    let (named, name) = StorePath.split(path)
    guard !name.isEmpty else {
      throw StoreError(errno: EISDIR, doing: "use the store", path: path)
    }
    try StorePath.refuseTooLong(path)
    guard let directory = StoreFile.realPath(named) else {
      if errno == ENOENT { throw StoreFile.missing(path) }
      throw StoreError(errno: errno, doing: "reach the directory", path: named)
    }
    let real = directory == "/" ? "/\(name)" : "\(directory)/\(name)"
    guard try StoreFile.exists(real) else { throw StoreFile.missing(real) }
    guard let file = FileStatus(of: real), let ofDirectory = FileStatus(of: directory) else {
      throw StoreError(errno: errno, doing: "look at", path: real)
    }
    // What lies beside it can be mended; a store of somebody else's is not for us to look at.
    try PlantedFile.refuse(real, in: directory, parts: [""])
    self.path = real
    self.directory = directory
    self.file = file
    self.ofDirectory = ofDirectory
  }

  func beside(_ suffix: String) -> String { path + suffix }

  /// The evidence by which to judge what the store says of itself.
  func terms(_ clock: StoreClock) -> StoreHeader.Terms {
    StoreHeader.Terms(
      clock: clock, log: LogOwner.log(beside: path),
      file: Int64(bitPattern: file.identity.inode))
  }

  /// What lies beside every store that was used, and belongs to its file.
  static let suffixes = [StoreFile.logSuffix, StoreFile.indexSuffix, CounterFile.suffix]

  /// All that lies beside a store, of which the lock file stays when another one takes its place.
  static let all = suffixes + [StoreLock.suffix]
}

/// What the system tells of a file, or of a link itself.
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
