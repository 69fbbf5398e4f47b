import Glibc
import SharedBreaker

/// The file into which a command writes the headers of HTTP answers, as `curl -D FILE` does.
struct HeaderDump {
  private let path: String

  /// The version of the file before the command has begun.
  ///
  /// A client that gets no answer may leave an older one in the file, and that must not count again.
  private let before: Version?

  init(path: String) {
    self.path = path
    before = Self.withFile(path) { _, version in version }
  }

  /// The last answer that the command has written; nil if it has written none.
  func answer() -> HTTPAnswer? {
    Self.withFile(path) { descriptor, version in
      version == before ? nil : HTTPAnswer(last: Self.end(of: descriptor, version.size))
    }
  }

  /// Changes with everything that is written to the file, and with another file at its path.
  private struct Version: Equatable {
    var device: UInt
    var inode: UInt
    var size: Int
    var seconds: Int
    var nanoseconds: Int
  }

  /// Opens the file; nil if it cannot be read, or is none, such as a terminal, at which a reader would wait.
  private static func withFile<Value>(
    _ path: String, _ body: (Int32, Version) -> Value?
  ) -> Value? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      return nil
    }
    return body(
      descriptor,
      Version(
        device: UInt(status.st_dev), inode: UInt(status.st_ino), size: status.st_size,
        seconds: status.st_ctim.tv_sec, nanoseconds: status.st_ctim.tv_nsec))
  }

  /// The last 64 KiB of the file, which hold the last answer's headers.
  private static func end(of descriptor: Int32, _ size: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: min(size, 65_536))
    var count = 0
    while count < bytes.count {
      let begin = size - bytes.count + count
      let read = unsafe bytes.withUnsafeMutableBytes { room in
        unsafe pread(descriptor, room.baseAddress?.advanced(by: count), room.count - count, begin)
      }
      if read < 0, errno == EINTR { continue }
      if read <= 0 { break }
      count += read
    }
    return Array(bytes.prefix(count))
  }
}

/// The status and the headers of an answer.
struct HTTPAnswer: Sendable {
  var status: Int
  var headers: [(key: String, value: String)] = []

  /// Reads the last answer of a dump; nil if there is none.
  ///
  /// Answers of proxies, redirections and those before the last attempt stand before it.
  init?(last dump: [UInt8]) {
    var last: HTTPAnswer?
    var isBody = false
    for line in dump.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
      let text = String(
        decoding: line.last == UInt8(ascii: "\r") ? line.dropLast() : line, as: UTF8.self)
      if let status = Self.status(text) {
        // An interim answer, such as 100 or 103, is followed by the real one.
        last = HTTPAnswer(status: status)
        isBody = false
      } else if text.isEmpty {
        isBody = true
      } else if !isBody, let colon = text.firstIndex(of: ":"), colon != text.startIndex {
        last?.headers.append(
          (key: String(text[..<colon]), value: String(text[colon...].dropFirst())))
      }
    }
    guard let last, last.status >= 200 else { return nil }
    self = last
  }

  private init(status: Int) { self.status = status }

  /// The status in a line such as `HTTP/1.1 429 Too Many Requests`.
  private static func status(_ line: String) -> Int? {
    let words = line.split(separator: " ", maxSplits: 2)
    guard line.hasPrefix("HTTP/"), words.count >= 2, words[1].utf8.count == 3,
      let status = Int(words[1]),
      status >= 100
    else { return nil }
    return status
  }
}
