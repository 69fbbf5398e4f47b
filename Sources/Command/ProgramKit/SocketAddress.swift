internal import Glibc

/// The address of a Unix socket.
///
/// A path that is longer than an address has room for is replaced with one through a descriptor of
/// its directory, which stays open as long as this value exists.
public struct SocketAddress: ~Copyable {
  private var address = sockaddr_un()
  private let length: socklen_t
  private let directory: Int32?

  /// Creates the address of a path; nil, with `errno` set, if there can be none.
  ///
  /// - Parameters:
  ///   - path: The path of the socket's file.
  ///   - mayBeAbstract: Whether a path that begins with `@` names no file, as systemd writes it.
  public init?(path: String, mayBeAbstract: Bool = false) {
    var bytes = Array(path.utf8)
    let room = MemoryLayout.size(ofValue: address.sun_path)
    var directory: Int32?
    if bytes.count >= room, let slash = bytes.lastIndex(of: UInt8(ascii: "/")) {
      let opened = unsafe open(
        String(decoding: bytes[..<slash], as: UTF8.self), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      guard opened >= 0 else { return nil }
      directory = opened
      bytes = Array("/proc/self/fd/\(opened)".utf8) + bytes[slash...]
    }
    guard !bytes.isEmpty, bytes.count < room else {
      if let directory { close(directory) }
      errno = ENAMETOOLONG
      return nil
    }
    if mayBeAbstract, bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 }
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
    length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
    self.directory = directory
  }

  deinit {
    if let directory { close(directory) }
  }

  /// Gives a socket this address; returns false, with `errno` set, if that fails.
  public func bind(_ socket: Int32) -> Bool {
    unsafe with { address, length in unsafe Glibc.bind(socket, address, length) == 0 }
  }

  /// Connects a socket to this address; returns false, with `errno` set, if that fails.
  public func connect(_ socket: Int32) -> Bool {
    unsafe with { address, length in unsafe Glibc.connect(socket, address, length) == 0 }
  }

  /// Sends a datagram to the address, and ignores errors.
  public func send(_ bytes: [UInt8], over socket: Int32) {
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
