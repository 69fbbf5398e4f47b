internal import Glibc

/// Who may use the files of a store that is created.
package struct StoreAccess: Sendable, Hashable {
  /// The permission bits of each file that somebody has asked for.
  package var mode: UInt32?

  /// The name of the group that somebody has asked for.
  package var group: String?

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
        .other, "there is no group \(StoreError.visible(group)): name one of this host's groups")
    }
    return unsafe entry.pointee.gr_gid
  }
}

/// The rights of the files of a store.
extension StoreAccess {
  /// The rights of a store that is there, or those that it is created with.
  func rights(of store: String) throws(StoreError) -> FileRights {
    if let status = FileStatus(of: store) { return status.rights }
    return FileRights(
      mode: fileMode, user: FileRights.unchanged,
      group: try groupNumber() ?? FileRights.unchanged)
  }
}
