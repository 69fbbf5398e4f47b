import BreakerStore
import Glibc
import TestSupport

/// A socket beside a store that answers like a relay, or fails to answer.
final class FakeRelay: Sendable {
  /// The treatment of a client that has asked.
  enum Manner: Sendable {
    case answers(String)

    /// Sends this, and then keeps the connection open.
    case hangs(after: String)

    /// Sends endlessly.
    case babbles
  }

  let path: String
  private let descriptor: Int32
  private let threads = Guarded(Threads())
  private let questions = Guarded<[String]>([])

  /// The questions of the clients.
  var asked: [String] { questions.withLock { $0 } }

  /// Starts it; it passes each question on before it answers.
  init(
    beside store: String, _ manner: Manner,
    whenAsked: @escaping @Sendable (String) -> Void = { _ in }
  ) throws {
    path = store + "-relay.sock"
    descriptor = try Self.listen(at: path)
    threads.withLock { threads in
      threads.start { [descriptor, questions] in
        while case let client = accept(descriptor, nil, nil), client >= 0 {
          Self.serve(client, manner) { question in
            questions.withLock { $0.append(question) }
            whenAsked(question)
          }
        }
      }
    }
  }

  deinit {
    // The accepting thread returns from its call, and its client has gone by now.
    shutdown(descriptor, Int32(SHUT_RDWR))
    threads.withLock { $0.join() }
    close(descriptor)
    unsafe unlink(path)
  }

  /// Leaves a socket without a listener, like a relay that was killed.
  static func leaveStale(beside store: String) throws {
    close(try listen(at: store + "-relay.sock"))
  }

  private static func listen(at path: String) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    guard descriptor >= 0 else { throw SupportError("socket", errno) }
    // A path that is too long for an address is bound through its directory.
    let slash = path.lastIndex(of: "/") ?? path.startIndex
    let folder = unsafe open(String(path[..<slash]), O_DIRECTORY | O_CLOEXEC)
    defer { close(folder) }
    let bound = path.utf8.count < 108 ? path : "/proc/self/fd/\(folder)\(path[slash...])"
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bound.utf8) }
    let length = socklen_t(MemoryLayout<sockaddr_un>.size)
    let result = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(descriptor, $0, length)
      }
    }
    guard result == 0, Glibc.listen(descriptor, 8) == 0 else { throw SupportError("bind", errno) }
    return descriptor
  }

  /// Reads one line, and does what the manner says until the client has gone.
  private static func serve(
    _ client: Int32, _ manner: Manner, _ note: (String) -> Void
  ) {
    defer { close(client) }
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while byte != UInt8(ascii: "\n") {
      guard unsafe recv(client, &byte, 1, 0) == 1 else { return }
      line.append(byte)
    }
    note(String(decoding: line, as: UTF8.self))
    switch manner {
    case .answers(let text): _ = say(text, to: client)
    case .hangs(let text):
      if say(text, to: client) { _ = unsafe recv(client, &byte, 1, 0) }
    case .babbles:
      let much = String(repeating: " ", count: 1 << 20)
      while say(much, to: client) {}
    }
  }

  /// Sends a text; false once the client has gone.
  private static func say(_ text: String, to client: Int32) -> Bool {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes {
        unsafe send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }
}
