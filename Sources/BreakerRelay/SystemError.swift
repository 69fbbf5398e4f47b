internal import Glibc

/// Errors of the system in words.
enum SystemError {
  static func text(_ number: Int32) -> String { unsafe String(cString: strerror(number)) }
}
