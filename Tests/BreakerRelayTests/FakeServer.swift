import Glibc
import Synchronization
import TestSupport

/// A server that gives the answers that a test wants to any question.
final class FakeServer {
  /// What to do after the first bytes of a client.
  enum Manner: Sendable {
    /// Sends bytes, and then nothing more.
    case send([UInt8])

    /// Sends bytes, and closes the connection.
    case sendAndClose([UInt8])

    /// Sends bytes one by one, each after a pause.
    case drip([UInt8])
  }

  let path: String
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
    listener = try UnixSocket.listen(at: path)
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
