import Glibc
import SharedBreaker
import TestSupport

/// Asks the relay of a host as `cbctl` does.
enum StatusClient {
  static func ask(_ question: String, of host: TestHost) throws -> String {
    let path = host.store.path + "-relay.sock"
    let client = try UnixSocket.connect(to: path)
    defer { close(client) }
    let bytes = Array((question + "\n").utf8)
    guard unsafe write(client, bytes, bytes.count) == bytes.count else {
      throw SupportError("write \(path)", errno)
    }
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while case let count = unsafe read(client, &chunk, chunk.count), count > 0 {
      answer += chunk[..<count]
    }
    return String(decoding: answer, as: UTF8.self)
  }
}
