internal import CArguments
internal import Glibc

/// Information of the system for this process, and text for its descriptors.
public enum ThisProcess {
  /// The words of the command line, byte for byte, without the program's name.
  public static func arguments() -> [[UInt8]] {
    let words = unsafe UnsafeBufferPointer(start: sb_arguments(), count: Int(sb_argument_count()))
    return unsafe words.dropFirst().map { word in
      guard let word = unsafe word else { return [] }
      return unsafe UnsafeRawBufferPointer(start: word, count: strlen(word)).map { $0 }
    }
  }

  /// The name of the host; nil if the system does not tell it.
  public static func hostName() -> String? {
    var name = [CChar](repeating: 0, count: 256)
    guard unsafe gethostname(&name, name.count - 1) == 0 else { return nil }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Writes a text to a descriptor.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - descriptor: Where to write it.
  ///   - waitsForRoom: Whether to wait for the reader of a non-blocking descriptor, which would
  ///     otherwise be an error.
  /// - Returns: The error number; nil if the whole text was written.
  public static func write(
    _ text: String, to descriptor: Int32, waitsForRoom: Bool = false
  ) -> Int32? {
    var text = text
    return text.withUTF8 { bytes in
      var written = 0
      while written < bytes.count {
        let rest = unsafe UnsafeBufferPointer(rebasing: bytes[written...])
        let count = unsafe Glibc.write(descriptor, rest.baseAddress, rest.count)
        if count > 0 {
          written += count
        } else if count == 0 {
          return EIO
        } else if errno == EAGAIN, waitsForRoom {
          var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
          _ = unsafe poll(&entry, 1, -1)
        } else if errno != EINTR {
          return errno
        }
      }
      return nil
    }
  }
}

/// The system's own message for an errno.
public enum SystemError {
  /// The message, in the language of the C locale.
  public static func text(_ number: Int32) -> String {
    unsafe strerror(number).map { unsafe String(cString: $0) } ?? "error \(number)"
  }
}
