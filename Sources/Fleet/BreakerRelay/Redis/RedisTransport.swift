internal import CHiredis
internal import Glibc
internal import ProgramKit
internal import SharedBreaker

/// The result of a step of reading or writing.
enum TransportStep {
  /// So many bytes were moved.
  case moved(Int)

  /// Nothing can be done before `poll` reports this event.
  case waits(for: Int32)
}

/// The bytes between this process and a server, as they are or encrypted.
///
/// Once it is made, nothing here waits.
@safe final class RedisTransport {
  /// The descriptor of the connection.
  let descriptor: Int32

  private var session: TLSSession?

  /// Connects to a server; its first words have not been read yet.
  ///
  /// - Parameters:
  ///   - address: The server.
  ///   - patience: How long to wait for the server in total.
  /// - Throws: `RedisError` if the server does not answer in time, or cannot prove who it is.
  init(to address: RedisAddress, patience: Duration) throws(RedisError) {
    let end = ContinuousClock.now + patience
    switch address.place {
    case .tcp(let host, let port):
      // First, because files that cannot be used are no matter of the server.
      session = try address.tls.map { tls throws(RedisError) in try TLSSession(tls, host: host) }
      descriptor = try Self.connected(to: host, port, patience: patience, by: end)
    case .sentinels:
      // They are asked before, because they have no data themselves.
      throw RedisError("its sentinels have not been asked")
    case .socket(let path):
      session = nil
      descriptor = unsafe try Self.opened(
        unsafe redisConnectUnixWithTimeout(path, Self.limit(until: end)), staysAlive: false)
    }
    try shakeHands(patience: patience, by: end)
  }

  deinit {
    // It says goodbye over the descriptor, whose number another file may get as soon as it is closed.
    session = nil
    close(descriptor)
  }

  /// The encryption in words, for `--check`; nil if there is none.
  var encryption: String? { session?.summary }

  /// Whether `poll` may wait although bytes have arrived.
  var hasUnread: Bool { session?.hasUnread ?? false }

  /// Reads the bytes that have arrived, as far as there is room.
  func read(into buffer: inout [UInt8]) throws(RedisError) -> TransportStep {
    if let session { return try session.read(into: &buffer) }
    let count = unsafe buffer.withUnsafeMutableBytes {
      unsafe recv(descriptor, $0.baseAddress, $0.count, 0)
    }
    guard count != 0 else { throw .closed }
    return try Self.step(count, waitingFor: POLLIN)
  }

  /// Writes as much as goes out now.
  func write(_ bytes: ArraySlice<UInt8>) throws(RedisError) -> TransportStep {
    if let session { return try session.write(bytes) }
    let count = unsafe bytes.withUnsafeBytes {
      unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
    }
    return try Self.step(count, waitingFor: POLLOUT)
  }

  /// Waits for an event of a descriptor; returns false if it has not come by a deadline.
  static func wait(
    for event: Int32, of descriptor: Int32, by deadline: ContinuousClock.Instant
  ) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(event), revents: 0)
    let left = DurationText.milliseconds(deadline - .now)
    guard left > 0 else { return false }
    return unsafe poll(&entry, 1, Int32(min(left, 1_000_000))) != 0
  }

  private static func step(
    _ count: Int, waitingFor event: Int32
  ) throws(RedisError) -> TransportStep {
    if count >= 0 { return .moved(count) }
    guard errno == EAGAIN || errno == EINTR else { throw .broken(errno) }
    return .waits(for: event)
  }
}

/// Connecting.
extension RedisTransport {
  /// Connects to the first address of a server that answers.
  private static func connected(
    to host: String, _ port: UInt16, patience: Duration, by end: ContinuousClock.Instant
  ) throws(RedisError) -> Int32 {
    var problem = RedisError("its name has no address: check it")
    for number in try HostLookup.system.addresses(of: host, patience: patience) {
      do throws(RedisError) {
        return unsafe try opened(
          unsafe redisConnectWithTimeout(number, Int32(port), limit(until: end)), staysAlive: true)
      } catch {
        problem = error
      }
    }
    throw problem
  }

  /// The time until a deadline, which is never zero, because zero would mean waiting forever.
  private static func limit(until end: ContinuousClock.Instant) -> timeval {
    let milliseconds = max(10, DurationText.milliseconds(end - .now))
    return timeval(tv_sec: Int(milliseconds / 1_000), tv_usec: Int(milliseconds % 1_000) * 1_000)
  }

  /// The descriptor of a connection that the client library has made, which does not block from here on.
  private static func opened(
    _ made: UnsafeMutablePointer<redisContext>?, staysAlive: Bool
  ) throws(RedisError) -> Int32 {
    guard let context = unsafe made else { throw RedisError("no memory is left for a connection") }
    guard unsafe context.pointee.err == 0 else {
      let problem = unsafe problem(of: context)
      unsafe redisFree(context)
      throw RedisError("\(problem): check the address, and whether the server runs")
    }
    if staysAlive { unsafe redisEnableKeepAlive(context) }
    let descriptor = unsafe redisFreeKeepFd(context)
    let flags = fcntl(descriptor, F_GETFL)
    guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
      let problem = RedisError("its connection cannot be set up: \(SystemError.text(errno))")
      close(descriptor)
      throw problem
    }
    return descriptor
  }

  private static func problem(of context: UnsafeMutablePointer<redisContext>) -> String {
    guard unsafe context.pointee.err != REDIS_ERR_IO else {
      return errno == 0 ? "the connection failed" : SystemError.text(errno)
    }
    let text = unsafe withUnsafeBytes(of: context.pointee.errstr) { bytes in
      unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    return OutsideText.quoted(text)
  }

  /// Agrees on the encryption, if there is to be any.
  private func shakeHands(
    patience: Duration, by end: ContinuousClock.Instant
  ) throws(RedisError) {
    guard let session else { return }
    try session.use(descriptor)
    while let event = try session.shakeHands() {
      guard Self.wait(for: event, of: descriptor, by: end) else {
        throw RedisError(
          "the handshake of TLS has not ended for \(DurationText.format(patience)): check that its"
            + " port speaks TLS")
      }
    }
  }
}
