import BenchShim
import Glibc
import TestSupport

/// A connection to a Redis server that does nothing but what a client must.
final class RawRedis {
  private let descriptor: Int32
  private var bytes: [UInt8] = []

  init(socket path: String) throws {
    descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { place in
      unsafe place.copyBytes(from: path.utf8.prefix(place.count - 1))
    }
    let size = socklen_t(MemoryLayout<sockaddr_un>.size)
    let code = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe connect(descriptor, pointer, size)
      }
    }
    guard code == 0 else { throw SupportError("connect", errno) }
  }

  deinit { close(descriptor) }

  func send(_ words: [String]) {
    let text = words.reduce("*\(words.count)\r\n") { "\($0)$\($1.utf8.count)\r\n\($1)\r\n" }
    let bytes = Array(text.utf8)
    _ = unsafe write(descriptor, bytes, bytes.count)
  }

  /// Waits until an answer has come that ends with a line.
  func answer() throws -> String {
    bytes.removeAll(keepingCapacity: true)
    var chunk = [UInt8](repeating: 0, count: 4_096)
    repeat {
      let count = unsafe read(descriptor, &chunk, chunk.count)
      guard count > 0 else { throw SupportError("read", errno) }
      bytes += chunk[..<count]
    } while bytes.last != 0x0A
    return String(decoding: bytes, as: UTF8.self)
  }
}
