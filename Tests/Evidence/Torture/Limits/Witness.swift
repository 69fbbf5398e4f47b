import BreakerStore
import Glibc
import TestSupport

/// A server that calls tell when they have room, each on a connection of its own.
///
/// It knows nothing of slots, pages and stores. The kernel closes the connections of a process that dies.
/// It answers each line with one byte, and the sender waits for that.
final class Witness: Sendable {
  let path: String
  private let listener: Int32
  private let referee: Guarded<LimitReferee>
  private let isOver = Guarded(false)

  static let goOn = UInt8(ascii: "+")
  static let stop = UInt8(ascii: ".")

  init(path: String, _ referee: LimitReferee) throws {
    self.path = path
    self.referee = Guarded(referee)
    listener = try SocketAddress.listen(at: path)
    Threads().start { [self] in serve() }
  }

  /// Uses the referee, which hears nothing meanwhile.
  func withReferee<Result>(_ body: (inout LimitReferee) -> Result) -> Result {
    referee.withLock { body(&$0) }
  }

  /// From now on, a process that wants to make a call is told to end instead.
  func end() { isOver.withLock { $0 = true } }

  /// A connection of a call.
  private struct Connection {
    var descriptor: Int32
    var bytes: [UInt8] = []

    /// The calls that it was about, and whether they were asked for on it.
    var calls: [String: Bool] = [:]
  }

  private func serve() {
    var connections: [Connection] = []
    while true {
      var polled = ([listener] + connections.map(\.descriptor)).map {
        pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
      }
      guard unsafe poll(&polled, nfds_t(polled.count), -1) >= 0 || errno == EINTR else { return }
      for index in connections.indices.reversed() where polled[index + 1].revents != 0 {
        if !hear(&connections[index]) {
          let closed = connections.remove(at: index)
          close(closed.descriptor)
          withReferee { referee in
            for (call, isOwner) in closed.calls { referee.hangUp(call, isOwner: isOwner) }
          }
        }
      }
      if polled[0].revents != 0 {
        let descriptor = accept(listener, nil, nil)
        if descriptor >= 0 { connections.append(Connection(descriptor: descriptor)) }
      }
    }
  }

  /// Hears what has arrived, and answers; false at the end.
  private func hear(_ connection: inout Connection) -> Bool {
    let chunk = unsafe [UInt8](unsafeUninitializedCapacity: 1_024) { buffer, count in
      count = max(0, unsafe recv(connection.descriptor, buffer.baseAddress, buffer.count, 0))
    }
    guard !chunk.isEmpty else { return false }
    connection.bytes += chunk
    while let end = connection.bytes.firstIndex(of: 0x0A) {
      let line = String(decoding: connection.bytes[..<end], as: UTF8.self)
      connection.bytes.removeSubrange(...end)
      let words = line.split(separator: " ").prefix(2).map { String($0) }
      let wants = words.first == "want"
      var answer = Self.goOn
      if wants, isOver.withLock({ $0 }) {
        answer = Self.stop
      } else {
        let call = words.last ?? ""
        switch words.first {
        case "want": connection.calls[call] = true
        case "hold" where connection.calls[call] == nil: connection.calls[call] = false
        case "ended": connection.calls[call] = nil
        default: break
        }
        // Read inside the lock, so that what the referee is told has an order.
        withReferee { $0.hear(line, at: Witness.now) }
      }
      _ = unsafe send(connection.descriptor, &answer, 1, Int32(MSG_NOSIGNAL))
    }
    return true
  }

  /// The clock that all processes of the host share.
  static var now: Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}

/// One call, as it speaks to the witness.
final class Testimony: Sendable {
  private let descriptor: Int32
  private let name: String
  private let hasBegun = Guarded(false)

  /// Speaks of a call on a connection of its own; nil if there is no witness any more.
  init?(of name: String, to path: String) {
    guard let descriptor = SocketAddress.connect(to: path) else { return nil }
    self.name = name
    self.descriptor = descriptor
  }

  deinit { close(descriptor) }

  /// Says that the call is asked for now; false if no more calls should be made.
  func want(_ units: Int, inBackground: Bool, isRetry: Bool = false) -> Bool {
    let priority = inBackground ? "background" : "ordinary"
    let retry = isRetry ? " retry" : ""
    return tell("want \(name) \(units) \(priority) \(Witness.now)\(retry)")
  }

  /// Says that the call has its room.
  func hold() {
    hasBegun.withLock { $0 = true }
    tell("hold \(name)")
  }

  /// Says that the call is about to give its room back.
  func leave() { tell("left \(name)") }

  /// Says that nothing of the call is left; a call that has begun has run, whatever it was told.
  func end(_ answer: String) { tell("ended \(name) \(hasBegun.withLock { $0 } ? "ran" : answer)") }

  /// Tells the witness something; false if it says that all is over, or is gone.
  @discardableResult func tell(_ line: String) -> Bool {
    let bytes = Array((line + "\n").utf8)
    let sent = unsafe send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    guard sent == bytes.count else { return false }
    var answer: UInt8 = 0
    while true {
      let count = unsafe recv(descriptor, &answer, 1, 0)
      if count < 0, errno == EINTR { continue }
      return count == 1 && answer == Witness.goOn
    }
  }
}

/// Sockets that have a path.
enum SocketAddress {
  static func listen(at path: String) throws -> Int32 {
    let descriptor = open()
    guard descriptor >= 0, unsafe with(path, { unsafe bind(descriptor, $0, $1) }) == 0,
      Glibc.listen(descriptor, 1_000) == 0
    else { throw SupportError("listen at \(path)", errno) }
    return descriptor
  }

  static func connect(to path: String) -> Int32? {
    let descriptor = open()
    guard descriptor >= 0 else { return nil }
    while unsafe with(path, { unsafe Glibc.connect(descriptor, $0, $1) }) != 0 {
      guard errno == EINTR else {
        close(descriptor)
        return nil
      }
    }
    return descriptor
  }

  private static func open() -> Int32 {
    socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  }

  private static func with(
    _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
    return unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }
}
