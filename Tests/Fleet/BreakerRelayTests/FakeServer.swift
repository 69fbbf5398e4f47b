import Glibc
import Synchronization
import TestSupport

/// A server that gives the answers that a test wants to any question.
final class FakeServer {
  /// The reaction to the first bytes of a client.
  enum Manner: Sendable {
    /// Sends bytes, and then nothing more.
    case send([UInt8])

    /// Sends bytes, and closes the connection.
    case sendAndClose([UInt8])

    /// Sends bytes one by one, each after a pause.
    case drip([UInt8])
  }

  let path: String

  /// The port of the loopback interface, or 0 for a server with a path.
  let port: UInt16
  private let listener: Int32
  private let threads = Threads()
  private let end = End()

  /// Whether the test is over.
  private final class End: Sendable {
    let isReached = Mutex(false)
  }

  init(in directory: TemporaryDirectory, _ manner: Manner) throws {
    // A client that writes to a server which has closed must not end the tests.
    signal(SIGPIPE, SIG_IGN)
    path = directory.file("fake.sock")
    port = 0
    listener = try UnixSocket.listen(at: path)
    threads.start { [listener, end] in Self.serve(listener, manner, until: end) }
  }

  /// Creates a server at a port that is not in use.
  init(_ manner: Manner) throws {
    signal(SIGPIPE, SIG_IGN)
    path = ""
    listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    guard listener >= 0 else { throw SupportError("socket", errno) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = unsafe withUnsafeMutablePointer(to: &address) { [listener] pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(listener, $0, size) == 0 && listen(listener, 64) == 0
          ? unsafe getsockname(listener, $0, &size) : -1
      }
    }
    guard code == 0 else { throw SupportError("listen at 127.0.0.1", errno) }
    port = UInt16(bigEndian: address.sin_port)
    threads.start { [listener, end] in Self.serve(listener, manner, until: end) }
  }

  /// Stops serving.
  func stop() {
    end.isReached.withLock { $0 = true }
    shutdown(listener, Int32(SHUT_RDWR))
    threads.join()
    close(listener)
  }

  private static func serve(_ listener: Int32, _ manner: Manner, until end: End) {
    while case let client = accept(listener, nil, nil), client >= 0 {
      defer { close(client) }
      var question = [UInt8](repeating: 0, count: 65_536)
      guard unsafe read(client, &question, question.count) > 0 else { continue }
      switch manner {
      case .send(let bytes):
        send(bytes, to: client)
        // Until the client gives up.
        while unsafe read(client, &question, question.count) > 0 {}
      case .sendAndClose(let bytes): send(bytes, to: client)
      case .drip(let bytes):
        for byte in bytes where !end.isReached.withLock({ $0 }) {
          guard send([byte], to: client) else { break }
          usleep(20_000)
        }
      }
    }
  }

  @discardableResult
  private static func send(_ bytes: [UInt8], to client: Int32) -> Bool {
    unsafe Glibc.send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
  }
}
