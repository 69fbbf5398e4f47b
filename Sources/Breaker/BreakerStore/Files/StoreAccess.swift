internal import Glibc

/// The users of the files of a store that is created.
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

  /// A group that is named without a mode may use the store, because it is named for nothing else.
  var fileMode: mode_t { mode.map { mode_t($0) & 0o666 } ?? (group == nil ? 0o600 : 0o660) }

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
  /// It does not count in a directory that all users may write to, where any user may have put it.
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
  /// A directory implies them if it is for one group, as `cbctl init --group` creates it, and holds
  /// only this store. Files that root creates in a directory of one other user are for that user,
  /// whose service could not use the store otherwise.
  init?(inDirectoryOf store: String) {
    let (directory, name) = StorePath.split(store)
    guard let rights = FileStatus(of: directory)?.rights else { return nil }
    if rights.mode & 0o2777 == 0o2770, DirectoryListing.isOnly(of: name, directory) {
      self.init(mode: 0o660, user: Self.unchanged, group: rights.group)
    } else if geteuid() == 0, let owner = rights.soleWriter {
      self.init(mode: 0o600, user: owner, group: rights.group)
    } else {
      return nil
    }
  }

  /// The user, other than root, who alone may create files in a directory with these rights.
  var soleWriter: uid_t? { user != 0 && mode & 0o022 == 0 ? user : nil }
}

/// Finds the file or directory that keeps this process from using a store.
enum Denial {
  /// Describes the file or directory that keeps this process from using a path; nil if none does.
  ///
  /// - Parameter path: The store, or a file or directory on the way to it.
  /// - Returns: The words, without a full stop.
  static func words(about path: String) -> String? {
    guard let (culprit, status) = culprit(at: path) else { return nil }
    let it = culprit == path ? "it" : StoreError.visible(culprit)
    let rights = status.rights
    let mode = String(repeating: "0", count: max(0, 4 - rights.octal.count)) + rights.octal
    // Being in the group helps if it may do what others may not.
    let isForGroup = (rights.mode >> 3) & ~rights.mode & 0o7 != 0
    let others = isForGroup ? " and \(HostUsers.group(rights.group))" : ""
    return "\(it) belongs to \(HostUsers.name(of: rights.user))\(others), mode \(mode), and this"
      + " process runs as \(HostUsers.name(of: geteuid()))"
  }

  private static func culprit(at path: String) -> (String, FileStatus)? {
    var isComplete = true
    for suffix in ["", StoreFile.logSuffix, StoreFile.indexSuffix, StoreLock.suffix] {
      guard let status = FileStatus(of: path + suffix) else {
        isComplete = false
        continue
      }
      if !mayUse(path + suffix, R_OK | W_OK) { return (path + suffix, status) }
    }
    if isComplete { return nil }
    var folder = StorePath.split(path).directory
    // Files beside the store are created in its directory; above it, only the way through counts.
    var needed = R_OK | W_OK | X_OK
    while true {
      if let status = FileStatus(of: folder) {
        return mayUse(folder, needed) ? nil : (folder, status)
      }
      let parent = StorePath.split(folder).directory
      if parent == folder { return nil }
      folder = parent
      needed = X_OK
    }
  }

  private static func mayUse(_ path: String, _ access: Int32) -> Bool {
    unsafe faccessat(AT_FDCWD, path, access, AT_EACCESS) == 0
  }
}

/// The users of this host.
enum HostUsers {
  /// The name of a user of this host: `root`, `shop`, or `user 999` for one that has none.
  static func name(of user: uid_t) -> String { known(user) ?? "user \(user)" }

  /// A user as a word and a name: `user root`, `user 999`.
  static func user(_ user: uid_t) -> String { "user \(known(user) ?? "\(user)")" }

  /// A group as a word and a name: `group workers`, `group 999`.
  static func group(_ group: gid_t) -> String {
    "group \(find(group, in: "/etc/group") ?? "\(group)")"
  }

  private static func known(_ user: uid_t) -> String? {
    user == 0 ? "root" : find(user, in: "/etc/passwd")
  }

  /// The name that a file of this host gives to a number.
  ///
  /// Only the files with the local users and groups are read. Asking a directory service could take
  /// seconds.
  private static func find(_ number: UInt32, in file: String) -> String? {
    for line in (ProcFile.text(file) ?? "").split(separator: "\n") {
      let fields = line.split(separator: ":", maxSplits: 3, omittingEmptySubsequences: false)
      if fields.count == 4, fields[2] == "\(number)" {
        return StoreError.visible(String(fields[0]))
      }
    }
    return nil
  }
}
