internal import CHost
internal import Glibc

/// Where an existing store lies, and what the system reports about it.
struct StoreSite {
  /// The path with its directories resolved.
  let path: String
  let directory: String
  let file: FileStatus
  let ofDirectory: FileStatus

  /// Finds the store without opening anything.
  ///
  /// - Throws: `StoreError` that says why the store cannot be examined.
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
    guard try StoreFile.exists(real) else {
      throw Replacement.isPending(real) ? Replacement.interrupted(real) : StoreFile.missing(real)
    }
    guard let file = FileStatus(of: real), let ofDirectory = FileStatus(of: directory) else {
      throw StoreError(errno: errno, doing: "look at", path: real)
    }
    // Files beside the store can be repaired, but another user's store is not ours to examine.
    try PlantedFile.refuse(real, in: directory, parts: [""])
    self.path = real
    self.directory = directory
    self.file = file
    self.ofDirectory = ofDirectory
  }

  func beside(_ suffix: String) -> String { path + suffix }

  /// The directories on the way to the store's own, whose modes say who may pass, from the inside out.
  ///
  /// A directory with an access control list is left out, because its mode does not tell (acl(5)).
  var way: [(path: String, rights: FileRights)] {
    var way: [(path: String, rights: FileRights)] = []
    var path = directory
    while path != "/" {
      path = StorePath.split(path).directory
      guard let status = FileStatus(of: path),
        unsafe sb_has_access_list(path) == 0
      else { continue }
      way.append((path, status.rights))
    }
    return way
  }

  /// The evidence against which to check the store's header.
  func terms(_ clock: StoreClock) -> StoreHeader.Terms {
    StoreHeader.Terms(
      clock: clock, log: LogOwner.log(beside: path),
      file: Int64(bitPattern: file.identity.inode))
  }

  /// The suffixes of the files beside a used store that belong to its file.
  static let suffixes = [
    StoreFile.logSuffix, StoreFile.indexSuffix, CounterFile.suffix, SlotFile.kind.suffix,
  ]

  /// The suffixes of all files beside a store; the lock files stay when another store replaces it.
  static let all = suffixes + [StoreLock.suffix, StoreLock.relaySuffix]
}
