import Glibc
import SharedBreaker
import TestSupport

/// Asks the relay of a host as `cbctl` does.
enum StatusClient {
  static func ask(_ question: String, of host: TestHost) throws -> String {
    let path = host.store.path + "-relay.sock"
    let client = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(client) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
    let connected = unsafe withUnsafePointer(to: address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe connect(client, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard connected == 0 else { throw SupportError("connect \(path)", errno) }
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
