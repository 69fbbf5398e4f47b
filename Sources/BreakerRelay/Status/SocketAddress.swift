internal import Glibc

/// The address of a Unix socket.
struct SocketAddress {
  private var address = sockaddr_un()
  private let length: socklen_t

  /// Makes the address of a path; a path that begins with `@` names no file, as in systemd.
  ///
  /// It is nil if the path is too long.
  init?(path: String) {
    var bytes = Array(path.utf8)
    let room = MemoryLayout.size(ofValue: address.sun_path)
    guard !bytes.isEmpty, bytes.count < room else { return nil }
    if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 }
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
    length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
  }

  /// Gives a socket this address; sets `errno` if that fails.
  func bind(_ socket: Int32) -> Bool {
    unsafe with { address, length in unsafe Glibc.bind(socket, address, length) == 0 }
  }

  /// Sends a datagram to the address.
  func send(_ bytes: [UInt8], over socket: Int32) {
    unsafe with { address, length in
      _ = unsafe sendto(
        socket, bytes, bytes.count, Int32(MSG_NOSIGNAL), address, length)
    }
  }

  private func with<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    unsafe withUnsafePointer(to: address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe body(pointer, length)
      }
    }
  }
}
