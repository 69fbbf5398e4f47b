internal import Glibc

/// Files that another user may have put in the place of a store's.
///
/// In a directory like `/tmp`, everybody may create files but touch only their own, so the first
/// user to create a name owns it. A store that another user put there would hand that user your
/// breakers.
enum PlantedFile {
  /// Refuses anything but a regular file, another user's file in such a directory, and a file of a
  /// user for whom the store is not.
  static func refuse(
    _ store: String, in directory: String,
    parts: [String] = ["", StoreFile.logSuffix, StoreFile.indexSuffix]
  ) throws(StoreError) {
    let main = FileStatus(of: store)
    for suffix in parts {
      let path = store + suffix
      guard let file = FileStatus(of: path) else { continue }
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
      "cannot use \(StoreError.visible(path)): it belongs to user \(file.rights.user), who may have"
        + " put it there for others to find: use a directory that not everybody may write to")
  }

  static func refuse(
    _ file: FileStatus, at path: String, beside store: FileStatus?
  ) throws(StoreError) {
    guard let store, isStrange(file, beside: store) else { return }
    let user = file.rights.user
    throw StoreError(
      .permissionDenied, code: EPERM,
      "cannot use \(StoreError.visible(path)): it belongs to user \(user), and the store to user"
        + " \(store.rights.user): give it to the store's owner if the store's programs created it,"
        + " or move it away")
  }

  /// Whether a file beside a store is that of a user who could not use the store, or a private one.
  ///
  /// SQLite opens the log and its index by name, and as root it gives them to the store's owner,
  /// whoever created them. Their creator may still have them open, and could truncate what the
  /// store's programs have mapped. Only users of the store create files with the store's mode.
  static func isStrange(_ file: FileStatus, beside store: FileStatus) -> Bool {
    if [geteuid(), 0, store.rights.user].contains(file.rights.user) { return false }
    if store.rights.isWritableForAll, file.rights.isWritableForAll { return false }
    return !(store.rights.isGroupWritable && file.rights.isGroupWritable)
  }

  /// Whether others than this user and root may create files in a directory.
  static func isOpenToOthers(_ directory: String) -> Bool {
    guard let its = FileStatus(of: directory)?.rights else { return true }
    return its.mode & 0o022 != 0 || ![geteuid(), 0].contains(its.user)
  }

  /// Whether a file in a sticky directory that everybody may write to is another user's.
  static func isAnothers(_ owner: uid_t, in directory: String) -> Bool {
    var status = stat()
    let open = mode_t(S_ISVTX) | S_IWOTH
    guard unsafe stat(directory, &status) == 0, status.st_mode & open == open else { return false }
    return ![geteuid(), status.st_uid, 0].contains(owner)
  }
}
