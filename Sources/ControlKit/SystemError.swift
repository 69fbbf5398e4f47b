import Glibc

/// The system's own message for an errno.
enum SystemError {
  static func text(_ number: Int32) -> String {
    unsafe strerror(number).map { unsafe String(cString: $0) } ?? "error \(number)"
  }
}
