import BreakerDocuments
import Glibc
import ProgramKit
import SharedBreaker

/// Asks the relay of a store what it knows, over the socket beside the store.
struct RelayClient {
  /// The path of the socket.
  var path: String

  /// How long connecting, asking and reading may take together.
  var patience: Duration

  /// The longest answer that is read: a hundred thousand breakers are some ten megabytes.
  static let longestAnswer = 32 << 20

  init(store path: String, patience: Duration) {
    self.path = path + "-relay.sock"
    self.patience = patience
  }

  /// Asks for the status.
  ///
  /// - Throws: `RelaySilence` if nothing listens, or no whole answer arrives in time.
  func status(_ question: RelayStatus.Question = .status) throws(RelaySilence) -> RelayStatus {
    let end = ContinuousClock.now + patience
    let socket = try RelaySocket(connectedTo: path, until: end)
    defer { socket.close() }
    try socket.send("\(question.rawValue)\n", until: end)
    let answer = try socket.readAll(atMost: Self.longestAnswer, until: end)
    guard let text = String(validating: answer, as: UTF8.self) else {
      throw RelaySilence("its answer is not UTF-8")
    }
    do { return try RelayStatus(document: text) } catch {
      throw RelaySilence("its answer cannot be understood: \(error.description)")
    }
  }
}

/// Why a relay gave no answer, in words that follow "the relay gave no answer".
struct RelaySilence: Error, Hashable {
  var why: String

  init(_ why: String) { self.why = why }

  init(errno number: Int32) { self.init(SystemError.text(number)) }

  static let late = RelaySilence("it took too long")
}

/// A connection to a relay whose every wait is bounded.
private struct RelaySocket {
  private let descriptor: Int32

  init(connectedTo path: String, until end: ContinuousClock.Instant) throws(RelaySilence) {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw RelaySilence(errno: errno) }
    do throws(RelaySilence) { try connect(to: path, until: end) } catch {
      close()
      throw error
    }
  }

  func close() { Glibc.close(descriptor) }

  /// Connects; the limit on sending also bounds how long a full queue of the relay is waited for.
  private func connect(to path: String, until end: ContinuousClock.Instant) throws(RelaySilence) {
    let place = try SocketPlace(path)
    defer { place.close() }
    try limitSending(until: end)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { bytes in
      unsafe bytes.copyBytes(from: place.path.utf8)
    }
    let length = socklen_t(MemoryLayout<sockaddr_un>.size)
    let result = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe Glibc.connect(descriptor, $0, length)
      }
    }
    guard result != 0 else { return }
    switch errno {
    case EAGAIN, EINPROGRESS: throw .late
    case ENOENT, ECONNREFUSED: throw RelaySilence("nothing listens at its socket")
    case let number: throw RelaySilence(errno: number)
    }
  }

  func send(_ text: String, until end: ContinuousClock.Instant) throws(RelaySilence) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      try limitSending(until: end)
      let count = unsafe rest.withUnsafeBytes { bytes in
        unsafe Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
      }
      if count > 0 { rest = rest.dropFirst(count) }
      if count < 0, errno != EINTR { throw errno == EAGAIN ? .late : RelaySilence(errno: errno) }
    }
  }

  /// Reads until the relay closes the connection.
  func readAll(
    atMost longest: Int, until end: ContinuousClock.Instant
  ) throws(RelaySilence) -> [UInt8] {
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      var entry = [pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)]
      let ready = unsafe poll(&entry, 1, Int32(clamping: try milliseconds(until: end)))
      if ready < 0, errno != EINTR { throw RelaySilence(errno: errno) }
      guard ready > 0 else { continue }
      let count = unsafe recv(descriptor, &chunk, chunk.count, Int32(MSG_DONTWAIT))
      if count == 0 { return answer }
      if count < 0 {
        if errno == EINTR || errno == EAGAIN { continue }
        throw RelaySilence(errno: errno)
      }
      answer += chunk[..<count]
      guard answer.count <= longest else {
        throw RelaySilence("its answer is longer than \(longest >> 20) MiB")
      }
    }
  }

  private func limitSending(until end: ContinuousClock.Instant) throws(RelaySilence) {
    let rest = try milliseconds(until: end)
    var limit = timeval(tv_sec: Int(rest / 1_000), tv_usec: Int(rest % 1_000) * 1_000)
    _ = unsafe setsockopt(
      descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  /// The time that is left, which is never zero, because zero would mean to wait forever.
  private func milliseconds(until end: ContinuousClock.Instant) throws(RelaySilence) -> Int64 {
    let rest = SpokenDuration.milliseconds(end - ContinuousClock.now)
    guard rest > 0 else { throw .late }
    return rest
  }
}

/// Where a socket is, as a path that an address has room for.
private struct SocketPlace {
  let path: String
  private let directory: Int32?

  /// How many bytes the path in an address has, with the zero that ends it.
  private static let room = MemoryLayout.size(ofValue: sockaddr_un().sun_path)

  init(_ path: String) throws(RelaySilence) {
    guard path.utf8.count >= Self.room, let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
    else {
      self.path = path
      directory = nil
      return
    }
    // A path that is too long is shortened to its directory's descriptor.
    let descriptor = unsafe open(String(path[..<slash]), O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw RelaySilence(errno: errno) }
    self.path = "/proc/self/fd/\(descriptor)\(path[slash...])"
    directory = descriptor
    guard self.path.utf8.count < Self.room else {
      close()
      throw RelaySilence(errno: ENAMETOOLONG)
    }
  }

  func close() {
    if let directory { Glibc.close(directory) }
  }
}
