internal import Glibc

/// Files that another user may have put in the place of a store's.
///
/// In a directory like `/tmp`, all users may create files but touch only their own, so the first
/// user to create a name owns it. A store that another user put there would hand that user your
/// breakers.
enum PlantedFile {
  /// Refuses what is not a regular file, another user's file in such a directory, and a file whose
  /// owner is not a user of the store.
  static func refuse(
    _ store: String, in directory: String,
    parts: [String] = ["", StoreFile.logSuffix, StoreFile.indexSuffix]
  ) throws(StoreError) {
    let main = FileStatus(of: store)
    for suffix in parts {
      let path = store + suffix
      guard let file = suffix.isEmpty ? main : FileStatus(of: path) else { continue }
      try refuse(file, at: path, in: directory)
      if !suffix.isEmpty { try refuse(file, at: path, beside: main) }
    }
  }

  static func refuse(
    _ file: FileStatus, at path: String, in directory: String
  ) throws(StoreError) {
    if file.isLink { throw StoreError(errno: ELOOP, doing: "use", path: path) }
    guard file.isRegular else {
      throw StoreError(
        .notAStore,
        "cannot use \(StoreError.visible(path)): it is not a regular file:"
          + " move it away, or use another path")
    }
    guard isAnothers(file.rights.user, in: directory) else { return }
    throw StoreError(
      .permissionDenied, code: EPERM,
      "cannot use \(StoreError.visible(path)): it belongs to \(HostUsers.user(file.rights.user)), who may"
        + " have put it there for others to find: use a directory that not everybody may write to")
  }

  static func refuse(
    _ file: FileStatus, at path: String, beside store: FileStatus?
  ) throws(StoreError) {
    guard let store, isStrange(file, beside: store) else { return }
    let user = file.rights.user
    throw StoreError(
      .permissionDenied, code: EPERM,
      "cannot use \(StoreError.visible(path)): it belongs to \(HostUsers.user(user)), and the store to"
        + " \(HostUsers.user(store.rights.user)): give it to the store's owner if the store's programs created it,"
        + " or move it away")
  }

  /// Whether a file beside a store is private, or belongs to a user who could not use the store.
  ///
  /// SQLite opens the log and its index by name, and as root it gives them to the store's owner,
  /// regardless of their creator. Their creator may still have them open, and could truncate what
  /// the store's programs have mapped. Only users of the store create files with the store's mode.
  static func isStrange(_ file: FileStatus, beside store: FileStatus) -> Bool {
    let owner = file.rights.user
    if owner == store.rights.user || owner == 0 || owner == geteuid() { return false }
    if store.rights.isWritableForAll, file.rights.isWritableForAll { return false }
    return !(store.rights.isGroupWritable && file.rights.isGroupWritable)
  }

  /// Whether others than this user and root may create files in a directory.
  static func isOpenToOthers(_ directory: String) -> Bool {
    guard let its = FileStatus(of: directory)?.rights else { return true }
    return its.mode & 0o022 != 0 || ![geteuid(), 0].contains(its.user)
  }

  /// Whether a file in a sticky directory that all users may write to is another user's.
  static func isAnothers(_ owner: uid_t, in directory: String) -> Bool {
    if owner == 0 || owner == geteuid() { return false }
    var status = stat()
    let open = mode_t(S_ISVTX) | S_IWOTH
    guard unsafe stat(directory, &status) == 0, status.st_mode & open == open else { return false }
    return owner != status.st_uid
  }
}

/// The log and its index, claimed before SQLite opens them in a directory that is open to others.
///
/// SQLite creates both if they are missing, and opens whatever it finds instead. Between a check of
/// the names and that, another user could put a file there, so there must be no moment at which a
/// name is free: what is missing is created here first. Afterwards, SQLite must have found the same
/// files.
struct ClaimedFiles {
  /// Where a database's header says that there is a log (sqlite.org/fileformat2.html, 1.3.3).
  private static let offsetOfVersions: Int64 = 18

  private let store: String
  private var identities: [String: FileIdentity] = [:]

  /// Whether the files still have to be claimed, once the store has its log.
  let areOpen: Bool

  /// Creates what is missing beside a store that has a log, if others may create files there.
  ///
  /// - Throws: `StoreError` if another user's file is there.
  init(beside store: String, in directory: String) throws(StoreError) {
    self.store = store
    guard PlantedFile.isOpenToOthers(directory) else {
      areOpen = false
      return
    }
    guard let main = FileStatus(of: store), Self.hasLog(store) else {
      areOpen = true
      return
    }
    areOpen = false
    // In SQLite's own order: an index without a log is set aside.
    for suffix in [StoreFile.logSuffix, StoreFile.indexSuffix] {
      let path = store + suffix
      if FileStatus(of: path) == nil, !Self.create(path, like: main.rights) { continue }
      try PlantedFile.refuse(store, in: directory, parts: [suffix])
      identities[suffix] = FileStatus(of: path)?.identity
    }
  }

  /// Makes sure that SQLite found the claimed files.
  func verify() throws(StoreError) {
    for (suffix, identity) in identities
    where StoreFile.identity(of: store + suffix) != identity {
      throw StoreError.replaced(store)
    }
  }

  /// Creates an empty file, as SQLite would; false if that is impossible.
  private static func create(_ path: String, like store: FileRights) -> Bool {
    do throws(StoreError) {
      close(try NewFile.create(path, store, mustHave: false))
      return true
    } catch {
      // A user who may only read creates neither. Another process may just have been faster.
      return error.code == EEXIST
    }
  }

  /// Whether the file says that it has a log; an empty log would make SQLite assume that it does.
  private static func hasLog(_ store: String) -> Bool {
    do throws(StoreError) {
      let connection = try Connection(
        reading: store, way: Connection.immutable, lockTimeout: .zero)
      return connection.header(at: offsetOfVersions, count: 2) == [2, 2]
    } catch {
      return false
    }
  }
}
