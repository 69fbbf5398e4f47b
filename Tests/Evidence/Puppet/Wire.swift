import BreakerStore
import Glibc

/// The pipes to the test: each command and each answer is one line.
final class Wire: @unchecked Sendable {
  static let shared = Wire()

  private let lock = Lock()
  private var buffer: [UInt8] = []

  /// The next line from the test; nil once the test has closed the pipe.
  func line() -> String? {
    lock.withLock {
      while true {
        if let end = buffer.firstIndex(of: 0x0A) {
          defer { buffer.removeFirst(end + 1) }
          return String(decoding: buffer[..<end], as: UTF8.self)
        }
        let chunk = unsafe [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
          count = max(0, unsafe read(0, buffer.baseAddress, buffer.count))
        }
        if chunk.isEmpty { return nil }
        buffer += chunk
      }
    }
  }

  /// Writes a line in one write.
  func put(_ line: String) { write(line + "\n") }

  func write(_ text: String, to descriptor: Int32 = 1) {
    let bytes = Array(text.utf8)
    // If this fails, the test has ended.
    _ = unsafe Glibc.write(descriptor, bytes, bytes.count)
  }
}
