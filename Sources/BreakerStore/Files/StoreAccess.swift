internal import Glibc

/// Who may use the files of a store that is created.
package struct StoreAccess: Sendable, Hashable {
  /// The permission bits that were requested for each file.
  package var mode: UInt32?

  /// The name of the group that was requested.
  package var group: String?

  /// The rights of the store that this process had open, if any.
  var earlier: FileRights?

  /// Whether the files later take the names of another store, and have longer ones until then.
  var isTemporary = false

  package init(mode: UInt32? = nil, group: String? = nil) {
    self.mode = mode
    self.group = group
  }

  var fileMode: mode_t { mode.map { mode_t($0) & 0o666 } ?? 0o600 }

  /// Users who may read a file may enter its directory, and files created there keep its group.
  var directoryMode: mode_t {
    let readable = fileMode & 0o444
    return fileMode | (readable >> 2) | (group == nil ? 0 : 0o2000)
  }

  func groupNumber() throws(StoreError) -> gid_t? {
    guard let group else { return nil }
    guard let entry = unsafe getgrnam(group) else {
      throw StoreError(
        .other, "there is no group \(StoreError.visible(group)): use one of this host's groups")
    }
    return unsafe entry.pointee.gr_gid
  }
}

/// The rights of a store's files.
extension StoreAccess {
  /// The rights of an existing store, or those that a new one is created with.
  ///
  /// A new store has the rights of the store that it replaces, as far as leftover files tell them.
  /// Requested rights come first, unless this process had the old store open: then the users of the
  /// old store are the users of the new one.
  func rights(of store: String) throws(StoreError) -> FileRights {
    if let status = FileStatus(of: store) { return status.rights }
    let left = left(of: store, by: StoreLock.suffix)
    if let earlier { return left ?? earlier }
    if isAsked {
      return FileRights(
        mode: fileMode, user: FileRights.unchanged,
        group: try groupNumber() ?? FileRights.unchanged)
    }
    return left ?? self.left(of: store, by: CounterFile.suffix)
      ?? self.left(of: store, by: StoreFile.logSuffix) ?? FileRights(inDirectoryOf: store)
      ?? FileRights(mode: 0o600, user: FileRights.unchanged, group: FileRights.unchanged)
  }

  /// Whether a new store must have the rights that were requested, or not be created at all.
  var isAsked: Bool { earlier == nil && (mode != nil || group != nil) }

  /// The rights of a file that an earlier store has left behind.
  ///
  /// It does not count in a directory that everybody may write to, where anybody may have put it.
  private func left(of store: String, by suffix: String) -> FileRights? {
    guard let directory = FileStatus(of: StorePath.split(store).directory),
      directory.rights.mode & 0o002 == 0, let file = FileStatus(of: store + suffix), file.isRegular
    else { return nil }
    return file.rights.ofUsers
  }
}

extension FileRights {
  /// The rights that a store's directory implies; nil if it implies none.
  ///
  /// It does if it is for one group alone, as `cbctl init --group` creates it, and for one store.
  init?(inDirectoryOf store: String) {
    let (directory, name) = StorePath.split(store)
    guard let status = FileStatus(of: directory), status.rights.mode & 0o2777 == 0o2770,
      DirectoryListing.isOnly(of: name, directory)
    else { return nil }
    self.init(mode: 0o660, user: Self.unchanged, group: status.rights.group)
  }
}
