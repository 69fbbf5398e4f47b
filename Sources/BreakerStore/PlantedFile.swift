internal import Glibc

/// Files that somebody else may have put in the place of a store's.
///
/// In a directory like `/tmp`, where everybody may make files but touch only their own, whoever is
/// first owns a name. A store that another user has put there would hand that user its breakers.
enum PlantedFile {
  /// Refuses what is no file, and what is another user's in such a directory.
  static func refuse(
    _ store: String, in directory: String,
    parts: [String] = ["", StoreFile.logSuffix, StoreFile.indexSuffix]
  ) throws(StoreError) {
    for suffix in parts {
      let path = store + suffix
      var status = stat()
      guard unsafe lstat(path, &status) == 0 else { continue }
      if status.st_mode & S_IFMT == S_IFLNK {
        throw StoreError(errno: ELOOP, doing: "use", path: path)
      }
      guard status.st_mode & S_IFMT == S_IFREG else {
        throw StoreError(
          .notAStore,
          "cannot use \(StoreError.visible(path)): it is not a regular file:"
            + " move it away, or name another path")
      }
      guard isAnothers(status.st_uid, in: directory) else { continue }
      throw StoreError(
        .permissionDenied, code: EPERM,
        "cannot use \(StoreError.visible(path)): it belongs to user \(status.st_uid), who may have"
          + " put it there for others to find: name a path where not everybody may make files")
    }
  }

  /// Whether the owner of a file is another user, in a directory where everybody may make files.
  static func isAnothers(_ owner: uid_t, in directory: String) -> Bool {
    var status = stat()
    let open = mode_t(S_ISVTX) | S_IWOTH
    guard unsafe stat(directory, &status) == 0, status.st_mode & open == open else { return false }
    return ![geteuid(), status.st_uid, 0].contains(owner)
  }
}
