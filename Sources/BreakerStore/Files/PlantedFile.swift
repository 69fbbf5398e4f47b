internal import Glibc

/// Files that another user may have put in the place of a store's.
///
/// In a directory like `/tmp`, everybody may create files but touch only their own, so the first
/// user to create a name owns it. A store that another user put there would hand that user your
/// breakers.
enum PlantedFile {
  /// Refuses anything but a regular file, and another user's file in such a directory.
  static func refuse(
    _ store: String, in directory: String,
    parts: [String] = ["", StoreFile.logSuffix, StoreFile.indexSuffix]
  ) throws(StoreError) {
    for suffix in parts {
      let path = store + suffix
      guard let file = FileStatus(of: path) else { continue }
      try refuse(file, at: path, in: directory)
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

  /// Whether a file in a sticky directory that everybody may write to is another user's.
  static func isAnothers(_ owner: uid_t, in directory: String) -> Bool {
    var status = stat()
    let open = mode_t(S_ISVTX) | S_IWOTH
    guard unsafe stat(directory, &status) == 0, status.st_mode & open == open else { return false }
    return ![geteuid(), status.st_uid, 0].contains(owner)
  }
}
