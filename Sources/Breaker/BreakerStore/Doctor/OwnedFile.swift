internal import Glibc

/// Changing the rights of a file whose contents prove that it is a store's.
///
/// A user who may write to the directory can move any file to a name of the store, even another
/// user's private file. The file behind a name can change at any moment, so the rights are changed
/// through the descriptor of the file that was checked.
enum OwnedFile {
  /// Changes the rights of the directory of a store, if it is still the one that was examined.
  static func give(
    _ rights: FileRights, toDirectoryOf place: StoreSite, _ identity: FileIdentity
  ) throws(StoreError) {
    let (descriptor, now) = try opened(place.directory, O_DIRECTORY, identity)
    defer { close(descriptor) }
    try change(descriptor, at: place.directory, from: now.rights, to: rights)
  }

  /// Changes the rights of a file of a store, if it is still the one that was examined.
  ///
  /// If it `staysOpen`, a file with locks of SQLite is never closed again, because that would drop
  /// this process's locks (sqlite.org/howtocorrupt.html, 2.2).
  static func give(
    _ rights: FileRights, to suffix: String, of place: StoreSite, _ identity: FileIdentity,
    staysOpen: Bool
  ) throws(StoreError) {
    let path = place.beside(suffix)
    let (descriptor, now) = try opened(path, O_NONBLOCK, identity)
    let hasLocks = suffix.isEmpty || suffix == StoreFile.indexSuffix
    defer { if !(staysOpen && hasLocks) { close(descriptor) } }
    guard now.names == 1 else {
      throw StoreError(
        .other,
        "the file \(StoreError.visible(path)) has \(now.names) names: its rights would change"
          + " under each of them: delete the other names")
    }
    let isNarrower =
      rights.user == now.rights.user && rights.group == now.rights.group
      && rights.mode & ~now.rights.mode == 0
    guard now.isRegular, isNarrower || isProven(descriptor, suffix, now, place.file) else {
      throw StoreError(
        .other,
        "nothing shows that \(StoreError.visible(path)) belongs to the store: move it away, or"
          + " change its rights yourself")
    }
    try change(descriptor, at: path, from: now.rights, to: rights)
  }

  private static func opened(
    _ path: String, _ flags: Int32, _ identity: FileIdentity
  ) throws(StoreError) -> (descriptor: Int32, now: FileStatus) {
    let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags)
    guard descriptor >= 0 else {
      throw StoreError(errno: errno, doing: "change the rights of", path: path)
    }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0, FileStatus(status).identity == identity else {
      close(descriptor)
      throw StoreError.replaced(path)
    }
    return (descriptor, FileStatus(status))
  }

  private static func change(
    _ descriptor: Int32, at path: String, from now: FileRights, to rights: FileRights
  ) throws(StoreError) {
    let user = rights.user == now.user ? FileRights.unchanged : rights.user
    let group = rights.group == now.group ? FileRights.unchanged : rights.group
    if user != FileRights.unchanged || group != FileRights.unchanged {
      guard fchown(descriptor, user, group) == 0 else {
        throw StoreError(errno: errno, doing: "change the owner of", path: path)
      }
    }
    guard fchmod(descriptor, mode_t(rights.mode)) == 0 else {
      throw StoreError(errno: errno, doing: "change the mode of", path: path)
    }
  }
}

/// The headers of a store's files.
extension OwnedFile {
  /// The version in the headers of a log and of its index (sqlite.org/walformat.html).
  private static let versionOfLog: UInt32 = 3_007_000
  private static let magicOfLog: UInt32 = 0x377F_0682

  private static func isProven(
    _ descriptor: Int32, _ suffix: String, _ file: FileStatus, _ store: FileStatus
  ) -> Bool {
    switch suffix {
    case "":
      word(descriptor, at: StoreEvidence.offsetOfApplication)?.bigEndian
        == UInt32(Migrator.applicationID)
    case StoreFile.logSuffix:
      file.size == 0
        || word(descriptor, at: 0).map { $0.bigEndian & ~1 } == magicOfLog
          && word(descriptor, at: 4)?.bigEndian == versionOfLog
    case StoreFile.indexSuffix: file.size == 0 || word(descriptor, at: 0) == versionOfLog
    case CounterFile.suffix: CounterFile.hasHeader(descriptor)
    case SlotFile.kind.suffix: SharedFile.hasHeader(descriptor, SlotFile.kind)
    default:
      // A lock file holds nothing.
      file.size == 0 && [geteuid(), 0, store.rights.user].contains(file.rights.user)
    }
  }

  private static func word(_ descriptor: Int32, at offset: Int64) -> UInt32? {
    var word: UInt32 = 0
    return unsafe pread(descriptor, &word, 4, Int(offset)) == 4 ? word : nil
  }
}
