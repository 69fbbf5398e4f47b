internal import Glibc

/// The system's own message for an errno.
public enum SystemError {
  /// The message, in the language of the C locale.
  public static func text(_ number: Int32) -> String {
    unsafe strerror(number).map { unsafe String(cString: $0) } ?? "error \(number)"
  }
}
