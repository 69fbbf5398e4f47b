internal import Glibc

/// Where a store lies when nobody says so.
package enum StorePath {
  /// The path that the environment asks for, or the usual one of this user.
  package static func usual(
    environment: (String) -> String?, isRoot: Bool, home: () -> String?
  ) -> String {
    if let path = nonEmpty(environment("SHARED_BREAKER_STORE")) { return path }
    if !isRoot {
      if let stateHome = absolute(environment("XDG_STATE_HOME")) {
        return stateHome + "/shared-breaker/breakers.db"
      }
      // Never a directory that everybody may write to: whoever came first would own the breakers.
      if let home = absolute(environment("HOME")) ?? absolute(home()) {
        return home + "/.local/state/shared-breaker/breakers.db"
      }
    }
    return "/var/lib/shared-breaker/breakers.db"
  }

  package static func usual() -> String {
    usual(
      environment: { name in
        guard let value = unsafe getenv(name) else { return nil }
        return unsafe String(cString: value)
      }, isRoot: geteuid() == 0, home: homeOfUser)
  }

  /// The home directory that the system knows of this user.
  private static func homeOfUser() -> String? {
    guard let entry = unsafe getpwuid(geteuid()), let home = unsafe entry.pointee.pw_dir else {
      return nil
    }
    return unsafe String(cString: home)
  }

  private static func absolute(_ path: String?) -> String? {
    path.flatMap { isAbsolute($0) ? $0 : nil }
  }

  private static func nonEmpty(_ text: String?) -> String? { text?.isEmpty == false ? text : nil }

  private static func isAbsolute(_ path: String) -> Bool { path.utf8.first == UInt8(ascii: "/") }

  /// The path from the root on, so that it names the same file wherever the process goes.
  static func absolute(_ path: String) -> String {
    guard !path.isEmpty, !isAbsolute(path), let current = unsafe getcwd(nil, 0) else {
      return path
    }
    defer { unsafe free(current) }
    return unsafe String(cString: current) + "/" + path
  }

  /// The directory and the last part of a path.
  static func split(_ path: String) -> (directory: String, file: String) {
    // By bytes: a mark beside the slash would make one character of both.
    let bytes = path.utf8
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return (".", path) }
    let directory = String(path[..<slash])
    return (directory.isEmpty ? "/" : directory, String(path[bytes.index(after: slash)...]))
  }
}
