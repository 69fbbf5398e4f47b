internal import CHost
internal import Glibc

/// Makes the directories of a store.
///
/// A user who may write to the directory above can put something else in the place of a new directory at any moment: a
/// link, or another directory of the same owner. Neither its owner nor its contents tell that one from the new one. So
/// a directory gets more rights than its owner's only where no other user can reach it, and has them before it has its
/// name.
enum NewDirectory {
  /// Makes a directory with these rights.
  ///
  /// - Throws: `StoreError` if it cannot be made, as where something has its name already.
  static func make(_ path: String, mode: mode_t, group: gid_t?) throws(StoreError) {
    if mode == ownersMode, group == nil { return try makeForOwner(path) }
    let nursery = StorePath.join(
      StorePath.split(path).directory,
      ".shared-breaker-\(String(UInt64.random(in: .min ... .max), radix: 36))")
    try makeForOwner(nursery)
    defer { unsafe rmdir(nursery) }
    let descriptor = unsafe open(nursery, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard descriptor >= 0 else { throw refusal(path) }
    defer { close(descriptor) }
    var status = stat()
    // Also where another directory has taken its place: no other user can enter this one.
    guard unsafe fstat(descriptor, &status) == 0, status.st_uid == geteuid(),
      status.st_mode & 0o077 == 0
    else { throw StoreError(errno: EPERM, doing: doing, path: path) }
    try make(path, in: descriptor, mode: mode, group: group)
  }

  /// Makes a directory in one that no other user can enter, and then gives it its name.
  private static func make(
    _ path: String, in nursery: Int32, mode: mode_t, group: gid_t?
  ) throws(StoreError) {
    let name = "new"
    guard unsafe mkdirat(nursery, name, ownersMode) == 0 else { throw refusal(path) }
    do throws(StoreError) {
      if let group, unsafe fchownat(nursery, name, uid_t.max, group, AT_SYMLINK_NOFOLLOW) != 0 {
        throw StoreError(errno: errno, doing: "change the group of", path: path)
      }
      guard unsafe fchmodat(nursery, name, mode, 0) == 0 else {
        throw StoreError(errno: errno, doing: "change the mode of", path: path)
      }
      let code = unsafe sb_give_name(nursery, name, path)
      guard code == 0 else { throw StoreError(errno: code, doing: doing, path: path) }
    } catch {
      unsafe unlinkat(nursery, name, AT_REMOVEDIR)
      throw error
    }
  }

  /// Makes a directory that is for its owner alone.
  private static func makeForOwner(_ path: String) throws(StoreError) {
    guard unsafe mkdir(path, ownersMode) == 0 else { throw refusal(path) }
    // The umask may have taken rights of the owner. No other user gains any by this, whatever is there by now.
    let mode = FileStatus(of: path)?.rights.mode ?? ownersMode
    guard
      unsafe mode & ownersMode == ownersMode
        || fchmodat(AT_FDCWD, path, ownersMode, AT_SYMLINK_NOFOLLOW) == 0
    else { throw refusal(path) }
  }

  private static let ownersMode: mode_t = 0o700
  private static let doing = "create the directory"

  private static func refusal(_ path: String) -> StoreError {
    StoreError(errno: errno, doing: doing, path: path)
  }
}
