import Glibc
import ProgramKit

/// Text that is read line by line, from a file or from standard input.
///
/// Only one line is kept at a time, so that a file of any size can be read, or refused.
struct InputText {
  /// The longest line in bytes; longer than any that `cbctl export` prints.
  static let longestLine = 16_777_216

  private let path: String
  private let descriptor: Int32
  private var chunk = [UInt8](repeating: 0, count: 65_536)
  private var rest: ArraySlice<UInt8> = []
  private var isAtEnd = false

  /// Passes each line of a file to a body, with its number; `-` stands for standard input.
  ///
  /// A line ends with LF or CRLF; other line separators can be part of it.
  static func forEachLine(
    of path: String, _ body: (Int, String) throws(ControlError) -> Void
  ) throws(ControlError) {
    let descriptor = path == "-" ? STDIN_FILENO : unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failed(path, SystemError.text(errno), "check the path") }
    defer { if path != "-" { close(descriptor) } }
    var text = InputText(path: path, descriptor: descriptor)
    var number = 0
    while let line = try text.next() {
      number += 1
      try body(number, line)
    }
  }

  private init(path: String, descriptor: Int32) {
    self.path = path
    self.descriptor = descriptor
  }

  private mutating func next() throws(ControlError) -> String? {
    var line: [UInt8] = []
    while true {
      if let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        line += rest[..<end]
        rest = rest[(end + 1)...]
        return try text(of: line)
      }
      line += rest
      guard line.count <= Self.longestLine else {
        throw Self.failed(
          path, "it has a line of more than \(Self.longestLine >> 20) MiB",
          "use the output of 'cbctl export'")
      }
      // Lets go of the chunk, which would otherwise be copied.
      rest = []
      rest = try read()
      if rest.isEmpty { return line.isEmpty ? nil : try text(of: line) }
    }
  }

  /// The next bytes of the file; none at its end.
  private mutating func read() throws(ControlError) -> ArraySlice<UInt8> {
    guard !isAtEnd else { return [] }
    while true {
      let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
      if count >= 0 {
        isAtEnd = count == 0
        return chunk[..<count]
      }
      guard errno == EINTR else {
        throw Self.failed(path, SystemError.text(errno), "check the path")
      }
    }
  }

  private func text(of line: [UInt8]) throws(ControlError) -> String {
    let bytes = line.last == UInt8(ascii: "\r") ? line.dropLast() : line[...]
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw Self.failed(path, "it is not UTF-8", "use the output of 'cbctl export'")
    }
    return text
  }

  private static func failed(_ path: String, _ why: String, _ advice: String) -> ControlError {
    ControlError(.failed, "\(VisibleText.quoted(path)) cannot be read", why, advice)
  }
}
