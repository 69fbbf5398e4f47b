import Glibc
import ProgramKit

/// Text that is read completely, from a file or from standard input.
enum InputText {
  /// Reads a file; `-` stands for standard input.
  static func read(_ path: String) throws(ControlError) -> String {
    let descriptor = path == "-" ? STDIN_FILENO : unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failed(path, errno) }
    defer { if path != "-" { close(descriptor) } }
    var text: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
      if count == 0 { break }
      if count < 0 {
        if errno == EINTR { continue }
        throw failed(path, errno)
      }
      text += chunk[..<count]
    }
    guard let text = String(validating: text, as: UTF8.self) else {
      throw ControlError(
        .failed, "\(VisibleText.quoted(path)) cannot be read", "it is not UTF-8",
        "use the output of 'cbctl export'")
    }
    return text
  }

  /// The lines of a text, ended by LF or CRLF; other line separators can be part of a line.
  static func lines(of text: String) -> [String] {
    text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { line in
      String(Substring(line.last == UInt8(ascii: "\r") ? line.dropLast() : line))
    }
  }

  private static func failed(_ path: String, _ number: Int32) -> ControlError {
    ControlError(
      .failed, "\(VisibleText.quoted(path)) cannot be read", SystemError.text(number),
      "check the path")
  }
}
