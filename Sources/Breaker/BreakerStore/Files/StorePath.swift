internal import Glibc

/// The default path of a store.
package enum StorePath {
  /// The path that the environment names, or the default path of this user.
  ///
  /// - Throws: `StoreError` if a source is not valid UTF-8: repairing the text would name another
  ///   path.
  package static func usual(
    environment: (String) throws(StoreError) -> String?, isRoot: Bool,
    home: () throws(StoreError) -> String?
  ) throws(StoreError) -> String {
    if let path = nonEmpty(try environment("SHARED_BREAKER_STORE")) { return path }
    if !isRoot {
      if let stateHome = absolute(try environment("XDG_STATE_HOME")) {
        return stateHome + "/shared-breaker/breakers.db"
      }
      // Never a directory that all users may write to: the first user there would own the breakers.
      if let home = absolute(try environment("HOME")) {
        return home + "/.local/state/shared-breaker/breakers.db"
      }
      if let home = absolute(try home()) {
        return home + "/.local/state/shared-breaker/breakers.db"
      }
    }
    return "/var/lib/shared-breaker/breakers.db"
  }

  package static func usual() throws(StoreError) -> String {
    try usual(
      environment: { name throws(StoreError) in
        guard let value = unsafe getenv(name) else { return nil }
        return unsafe try text(value, of: "$\(name)")
      }, isRoot: geteuid() == 0, home: homeOfUser)
  }

  /// The home directory that the system has on record for this user.
  private static func homeOfUser() throws(StoreError) -> String? {
    guard let entry = unsafe getpwuid(geteuid()), let home = unsafe entry.pointee.pw_dir else {
      return nil
    }
    return unsafe try text(home, of: "the home directory")
  }

  private static func text(
    _ bytes: UnsafeMutablePointer<CChar>, of source: String
  ) throws(StoreError) -> String {
    if let text = unsafe String(validatingCString: bytes) { return text }
    throw StoreError(.other, "cannot find the store: \(source) is not UTF-8: use another path")
  }

  private static func absolute(_ path: String?) -> String? {
    path.flatMap { isAbsolute($0) ? $0 : nil }
  }

  private static func nonEmpty(_ text: String?) -> String? { text?.isEmpty == false ? text : nil }

  private static func isAbsolute(_ path: String) -> Bool { path.utf8.first == UInt8(ascii: "/") }

  /// The path made absolute, so that it names the same file if the working directory changes.
  package static func absolute(_ path: String) -> String {
    guard !path.isEmpty, !isAbsolute(path), let current = unsafe getcwd(nil, 0) else {
      return path
    }
    defer { unsafe free(current) }
    // A working directory that is not valid UTF-8 is refused when the store is opened.
    return unsafe String(validatingCString: current).map { $0 + "/" + path } ?? path
  }

  /// The limits in bytes on a store's path, with its links resolved, and on its last component.
  ///
  /// SQLite's limit is 512, including the suffix of its journal, and file systems allow 255 for a
  /// name. A repair temporarily gives a store longer names. Without these limits, the system would
  /// only report that there is no such file.
  static let longest = (path: 480, file: 200)

  /// Refuses a path that is too long for all the files of a store.
  ///
  /// The directory is that of the path with its links resolved; nil if it does not exist yet.
  static func refuseTooLong(
    _ path: String, in directory: String? = nil
  ) throws(StoreError) {
    let path = directory.map { join($0, split(path).file) } ?? resolved(path)
    let file = split(path).file
    for (what, text, limit) in [
      ("file name", file, longest.file), ("path", path, longest.path),
    ] where text.utf8.count > limit {
      throw StoreError(
        .other, code: ENAMETOOLONG,
        "cannot use the store \(StoreError.visible(path)): its \(what) has \(text.utf8.count)"
          + " bytes, and \(limit) is the limit: use a shorter path")
    }
  }

  /// The path with its links resolved, as far as its directories exist.
  static func resolved(_ path: String) -> String {
    let (directory, file) = split(path)
    let real: String
    if let found = StoreFile.realPath(directory) {
      real = found
    } else {
      guard errno == ENOENT, directory != path else { return path }
      real = resolved(directory)
    }
    return join(real, file)
  }

  /// The path of a file in a directory.
  static func join(_ directory: String, _ file: String) -> String {
    directory == "/" ? "/\(file)" : "\(directory)/\(file)"
  }

  /// The directory and the last component of a path.
  static func split(_ path: String) -> (directory: String, file: String) {
    // By bytes, because a combining mark after the slash would form one character with it.
    let bytes = path.utf8
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return (".", path) }
    let directory = String(path[..<slash])
    return (directory.isEmpty ? "/" : directory, String(path[bytes.index(after: slash)...]))
  }
}
