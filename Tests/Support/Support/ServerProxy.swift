import Glibc
import Synchronization

/// A connection to a server that a test can disturb: it copies bytes between its own socket and the
/// server's.
package final class ServerProxy {
  /// The treatment of the bytes that arrive at the proxy.
  package enum Manner: Sendable, Hashable {
    case passOn

    /// Waits so many milliseconds before it passes on each piece.
    case delay(UInt32)

    /// Passes on clients' bytes, but answers these ones for each piece of the server's answers.
    case answer([UInt8])

    /// Reads what arrives, and passes nothing on.
    case lose

    /// Leaves everything where it is, new connections too, until the manner is another one.
    case hold

    /// Closes every connection, and each new one at once.
    case cut
  }

  package let path: String
  private let threads = Threads()
  private let course = Course()

  /// The state that the test and the thread of the proxy share.
  private final class Course: Sendable {
    struct State {
      var manner = Manner.passOn
      var connections = 0
      var isOver = false
    }

    let state = Mutex(State())
  }

  package init(
    in directory: TemporaryDirectory, to server: String, name: String = "proxy.sock"
  ) throws {
    // A peer that has closed its connection must not end the tests.
    signal(SIGPIPE, SIG_IGN)
    path = directory.file(name)
    let listener = try UnixSocket.listen(at: path)
    threads.start { [course] in Self.serve(listener, to: server, course) }
  }

  deinit {
    course.state.withLock { $0.isOver = true }
    threads.join()
  }

  package var manner: Manner {
    get { course.state.withLock { $0.manner } }
    set { course.state.withLock { $0.manner = newValue } }
  }

  /// How many clients are connected, including those that have gone while the proxy held their bytes.
  package var connections: Int { course.state.withLock { $0.connections } }
}

/// The thread of the proxy.
extension ServerProxy {
  /// A client's connection, and the one to the server that belongs to it.
  private struct Pair {
    var client: Int32
    var server: Int32

    func end() {
      close(client)
      close(server)
    }
  }

  private static func serve(_ listener: Int32, to server: String, _ course: Course) {
    var pairs: [Pair] = []
    defer {
      for pair in pairs { pair.end() }
      close(listener)
    }
    while true {
      let state = course.state.withLock { [count = pairs.count] state in
        state.connections = count
        return state
      }
      if state.isOver { return }
      guard state.manner != .hold else {
        usleep(5_000)
        continue
      }
      var entries = ([listener] + pairs.flatMap { [$0.client, $0.server] }).map {
        pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
      }
      _ = unsafe poll(&entries, nfds_t(entries.count), 5)
      let ready = entries.map { $0.revents != 0 }
      var left: [Pair] = []
      for (index, pair) in pairs.enumerated() {
        let goesOn =
          state.manner != .cut
          && (!ready[2 * index + 1] || copy(from: pair.client, to: pair.server, state.manner))
          && (!ready[2 * index + 2] || answer(pair, state.manner))
        if goesOn { left.append(pair) } else { pair.end() }
      }
      pairs = left
      if ready[0] {
        let client = accept(listener, nil, nil)
        guard client >= 0 else { continue }
        if state.manner == .cut {
          close(client)
        } else if let server = try? UnixSocket.connect(to: server) {
          pairs.append(Pair(client: client, server: server))
        } else {
          close(client)
        }
      }
    }
  }

  /// Passes on a piece of the server's answers, or something else; returns whether both go on.
  private static func answer(_ pair: Pair, _ manner: Manner) -> Bool {
    guard case .answer(let bytes) = manner else {
      return copy(from: pair.server, to: pair.client, manner)
    }
    return read(from: pair.server) != nil && write(bytes[...], to: pair.client)
  }

  /// Passes on a piece; returns whether both ends go on.
  private static func copy(from: Int32, to: Int32, _ manner: Manner) -> Bool {
    guard let piece = read(from: from) else { return false }
    if manner == .lose { return true }
    if case .delay(let milliseconds) = manner { usleep(milliseconds * 1_000) }
    return write(piece[...], to: to)
  }

  private static func read(from descriptor: Int32) -> [UInt8]? {
    let piece = unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
      count = max(0, unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count))
    }
    return piece.isEmpty ? nil : piece
  }

  private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) -> Bool {
    var rest = bytes
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { bytes in
        unsafe send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }
}
