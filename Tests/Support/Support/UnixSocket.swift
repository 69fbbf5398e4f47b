import Glibc

/// Sockets that have a path.
package enum UnixSocket {
  package static func listen(at path: String) throws -> Int32 {
    try unsafe make(path, "bind") { descriptor, address, size in
      unsafe bind(descriptor, address, size) == 0 && Glibc.listen(descriptor, 64) == 0
    }
  }

  package static func connect(to path: String) throws -> Int32 {
    try unsafe make(path, "connect") { unsafe Glibc.connect($0, $1, $2) == 0 }
  }

  private static func make(
    _ path: String, _ call: String,
    _ use: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Bool
  ) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    guard descriptor >= 0 else { throw SupportError("socket", errno) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
    let isUsable = unsafe withUnsafePointer(to: address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe use(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard isUsable else {
      let problem = SupportError("\(call) \(path)", errno)
      close(descriptor)
      throw problem
    }
    return descriptor
  }
}
