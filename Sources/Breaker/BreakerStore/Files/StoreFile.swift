internal import CHost
internal import Glibc

/// The file on disk, before SQLite opens it.
enum StoreFile {
  /// Finds or creates the file, and returns its path with the directories resolved.
  ///
  /// The file is opened here only when it is new, because closing a descriptor of a file that
  /// SQLite has open would drop the locks of this process (sqlite.org/howtocorrupt.html, 2.2).
  static func prepare(
    path: String, mayCreate: Bool, access: StoreAccess, lockTimeout: Duration
  ) throws(StoreError) -> String {
    let (named, file) = StorePath.split(path)
    guard !file.isEmpty else {
      throw StoreError(errno: EISDIR, doing: "use the store", path: path)
    }
    let existing = realPath(named)
    if !access.isTemporary { try StorePath.refuseTooLong(path, in: existing) }
    let group = try access.groupNumber()
    if mayCreate, existing == nil { try makeDirectories(named, access: access, group: group) }
    guard let directory = existing ?? realPath(named) else {
      if errno == ENOENT, !mayCreate { throw missing(path) }
      throw StoreError(errno: errno, doing: "reach the directory", path: named)
    }
    try FileSystem.refuseNetwork(directory)
    let real = StorePath.join(directory, file)
    if try !exists(real) {
      guard mayCreate || Replacement.isPending(real) else { throw missing(real) }
      try StoreLock.held(real, access: access, atMost: lockTimeout) { lock throws(StoreError) in
        if try exists(real) { return }
        if try Replacement.complete(real, at: StoreClock.system.wallMilliseconds) { return }
        guard mayCreate else { throw missing(real) }
        let rights = try access.rights(of: real)
        // Left behind by an earlier file of that name, perhaps with processes that still use it.
        setAside(real + logSuffix)
        setAside(real + indexSuffix)
        try create(real, rights, mustHave: access.isAsked)
        lock.share(rights)
      }
    }
    try PlantedFile.refuse(real, in: directory)
    try HardLinks.refuse(real)
    try LoneMount.refuse(real)
    // Another process is about to create a store here, or has created an empty file for it.
    let isEmpty = ["", logSuffix].allSatisfy { FileStatus(of: real + $0)?.size ?? 0 == 0 }
    if !mayCreate, isEmpty { throw missing(real) }
    return real
  }

  /// The file that a path names now; nil if there is none.
  static func identity(of path: String) -> FileIdentity? {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else { return nil }
    return FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
  }

  static func missing(_ path: String) -> StoreError {
    StoreError(
      .missing, code: ENOENT,
      "there is no store at \(StoreError.visible(path)): create one with 'cbctl init',"
        + " or use another path")
  }

  /// The suffixes that SQLite adds to the path for the write-ahead log and for its index.
  static let logSuffix = "-wal"
  static let indexSuffix = "-shm"

  /// Moves a file out of the way of a store that it does not belong to; it may be gone already.
  ///
  /// A log that is set aside may hold what its own file lacks, so it is not deleted, and does not replace
  /// another one: there may be several, up to a number.
  static func setAside(_ path: String) {
    let names = [path + ".orphan"] + (2...9).map { "\(path).orphan-\($0)" }
    let isLog = path.hasSuffix(logSuffix)
    let free = isLog ? names.first { FileStatus(of: $0)?.size ?? 0 == 0 } : nil
    unsafe rename(path, free ?? names[isLog ? names.count - 1 : 0])
  }

  static func exists(_ path: String) throws(StoreError) -> Bool {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else {
      if errno == ENOENT { return false }
      throw StoreError(errno: errno, doing: "use the store", path: path)
    }
    switch status.st_mode & S_IFMT {
    case S_IFREG: break
    case S_IFDIR: throw StoreError(errno: EISDIR, doing: "use the store", path: path)
    case S_IFLNK: throw StoreError(errno: ELOOP, doing: "use the store", path: path)
    default:
      throw StoreError(
        .notAStore,
        "cannot use the store \(StoreError.visible(path)): it is not a regular file:"
          + " use another path")
    }
    guard unsafe Glibc.access(path, R_OK) == 0 else {
      throw StoreError(errno: errno, doing: "use the store", path: path)
    }
    return true
  }

  private static func create(
    _ path: String, _ rights: FileRights, mustHave: Bool
  ) throws(StoreError) {
    do throws(StoreError) {
      close(try NewFile.create(path, rights, mustHave: mustHave, doing: "create the store"))
    } catch {
      // A program of an earlier version, which does not use the lock, has just created it.
      guard error.code == EEXIST else { throw error }
    }
  }

  private static func makeDirectories(
    _ path: String, access: StoreAccess, group: gid_t?
  ) throws(StoreError) {
    guard unsafe Glibc.access(path, F_OK) != 0, errno == ENOENT else { return }
    let (parent, last) = StorePath.split(path)
    if last.isEmpty {
      if parent != path { try makeDirectories(parent, access: access, group: group) }
      return
    }
    // Only the last directory belongs to the store.
    if parent != path { try makeDirectories(parent, access: StoreAccess(), group: nil) }
    do throws(StoreError) {
      try NewDirectory.make(path, mode: access.directoryMode, group: group)
    } catch {
      // Another process has just made it.
      if FileStatus(of: path) != nil { return }
      throw error
    }
    // Without this, a power cut could remove the store together with its directory. A user who may
    // write to the parent directory but not read it cannot sync it, and does without.
    let code = DirectorySync.run(parent)
    guard code == 0 || code == EACCES || code == EINVAL else {
      unsafe rmdir(path)
      throw StoreError(errno: code, doing: "write to the disk", path: parent)
    }
  }

  static func realPath(_ path: String) -> String? {
    guard let resolved = unsafe realpath(path, nil) else { return nil }
    let text = unsafe String(validatingCString: resolved)
    unsafe free(resolved)
    if text == nil { errno = EILSEQ }
    return text
  }
}

/// Additional names of a store's file.
///
/// SQLite finds a log by the name of its file. Under a second name, the file therefore gets a
/// second log. Neither log knows what is in the other, and this damages the file
/// (sqlite.org/howtocorrupt.html, 2.5). The other name is unknown, and so is whether it is in use.
/// But if the log and its index have as many names as the file, as after `cp -al` of the whole
/// directory, every name leads to the same three files.
struct HardLinks {
  /// How many names the file has.
  let names: UInt64

  /// Whether the log and its index have as many names.
  let areShared: Bool

  /// Nil if the file has no other name, or does not exist.
  init?(of store: String) {
    guard let names = FileStatus(of: store)?.names, names > 1 else { return nil }
    self.names = names
    areShared = [StoreFile.logSuffix, StoreFile.indexSuffix].allSatisfy {
      FileStatus(of: store + $0)?.names ?? 0 >= names
    }
  }

  /// Refuses a file that can get another log under another name.
  ///
  /// A process that has the file open already continues, because it can do no further harm.
  static func refuse(_ store: String) throws(StoreError) {
    guard let links = HardLinks(of: store), !links.areShared else { return }
    throw StoreError(
      .other, code: EMLINK,
      "cannot use the store \(StoreError.visible(store)): its file has \(links.names) names, and"
        + " would get a log under each of them: delete the other names, which 'find -samefile'"
        + " lists, or replace the file with a copy")
  }
}

/// A file of a store that is mounted without its directory, as `docker -v breakers.db:breakers.db`
/// does.
///
/// Where it is mounted, it lies in another directory. There it gets a log, an index and counters of
/// its own, and it cannot be replaced by renaming. To SQLite, this is a file with two names
/// (sqlite.org/howtocorrupt.html, 2.5), although it has only one.
struct LoneMount {
  /// The suffix that is added to the store's path to name the file.
  let suffix: String

  /// The first such file among a store and the files beside it; nil if there is none.
  ///
  /// - Parameter store: The path of the store with its directories resolved.
  init?(of store: String) {
    let directory = StorePath.split(store).directory
    let its = unsafe sb_mount(directory)
    let parts = [""] + StoreSite.suffixes
    let lone =
      its != 0
      ? parts.first { ![its, 0].contains(unsafe sb_mount(store + $0)) }
      // Before Linux 5.8 the kernel lists the places of mounts, without telling which one a path is on.
      : FileSystem.mountPoints.flatMap { points in
        parts.first { points.contains(store + $0) && FileStatus(of: store + $0) != nil }
      }
    guard let lone else { return nil }
    suffix = lone
  }

  /// Refuses a store of which a file is mounted without its directory.
  static func refuse(_ store: String) throws(StoreError) {
    guard let mount = LoneMount(of: store) else { return }
    throw StoreError(
      .other, code: EXDEV,
      "cannot use the store \(StoreError.visible(store)): its file"
        + " \(StoreError.visible(StorePath.split(store + mount.suffix).file)) is mounted without its"
        + " directory, and has another log there: mount the directory instead")
  }
}
