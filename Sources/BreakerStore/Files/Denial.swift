internal import Glibc

/// Whose file stands in the way of this process.
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
    return "\(it) belongs to \(HostUsers.name(of: rights.user)), mode \(mode), and this process"
      + " runs as \(HostUsers.name(of: geteuid()))"
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
  /// The name of a user of this host, or its number.
  ///
  /// Only the file with the local users is read. Asking a directory service could take seconds.
  static func name(of user: uid_t) -> String {
    if user == 0 { return "root" }
    for line in (ProcFile.text("/etc/passwd") ?? "").split(separator: "\n") {
      let fields = line.split(separator: ":", maxSplits: 3, omittingEmptySubsequences: false)
      if fields.count == 4, fields[2] == "\(user)" { return StoreError.visible(String(fields[0])) }
    }
    return "user \(user)"
  }
}
