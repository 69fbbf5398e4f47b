import Glibc
import Synchronization

/// A server on this host that gives one prepared answer to each request, and then stops.
///
/// It makes the example independent of a network, and has nothing to do with the breaker.
final class Server: Sendable {
  struct NoSocket: Error { var code: Int32 }

  let url: String
  private let socket: Int32
  let answers: [String]
  private let count = Atomic<Int>(0)

  /// The number of answers given so far.
  var answered: Int { count.load(ordering: .relaxed) }

  /// Listens on a port that the system chooses.
  init(answering answers: [String]) throws(NoSocket) {
    self.answers = answers
    socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = socket
    let isListening = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe bind(descriptor, address, size) == 0 && listen(descriptor, 8) == 0
          && getsockname(descriptor, address, &size) == 0
      }
    }
    guard isListening else { throw NoSocket(code: errno) }
    url = "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))/"
    var thread = pthread_t()
    let context = unsafe Unmanaged.passRetained(self).toOpaque()
    let code = unsafe pthread_create(
      &thread, nil,
      { context in
        guard let context = unsafe context else { return nil }
        unsafe Unmanaged<Server>.fromOpaque(context).takeRetainedValue().serve()
        return nil
      }, context)
    guard code == 0 else { throw NoSocket(code: code) }
    pthread_detach(thread)
  }

  private func serve() {
    for answer in answers {
      let client = accept(socket, nil, nil)
      var request = [UInt8](repeating: 0, count: 8_192)
      _ = unsafe read(client, &request, request.count)
      count.add(1, ordering: .relaxed)
      let text = Array("HTTP/1.1 \(answer)\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
      _ = unsafe send(client, text, text.count, Int32(MSG_NOSIGNAL))
      close(client)
    }
    close(socket)
  }
}
