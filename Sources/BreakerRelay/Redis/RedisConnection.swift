internal import CHiredis
internal import Glibc
internal import ProgramKit
internal import SharedBreaker

/// A connection to a Redis server, on which nothing waits for longer than a deadline.
///
/// It belongs to one thread.
@safe package final class RedisConnection {
  private let context: UnsafeMutablePointer<redisContext>
  private let patience: Duration

  /// How many elements the answer that is being read may still have.
  private let elementsLeft: UnsafeMutablePointer<Int>

  /// How often something was read since the last complete answer.
  private var reads = 0

  /// How many reads, of at most 16 KiB each, an answer may take.
  private static let mostReads = 16_384

  /// The descriptor of the connection, to wait for answers with `poll`.
  package var descriptor: Int32 { unsafe context.pointee.fd }

  /// Connects, and logs in if the address has a password.
  ///
  /// - Parameters:
  ///   - address: The server.
  ///   - patience: How long to wait for the server in each of these steps.
  /// - Throws: `RedisError` if the server does not answer in time, or refuses.
  package init(to address: RedisAddress, patience: Duration) throws(RedisError) {
    let context = unsafe try Self.connected(to: address, patience: patience)
    unsafe self.context = unsafe context
    self.patience = patience
    unsafe elementsLeft = UnsafeMutablePointer<Int>.allocate(capacity: 1)
    unsafe elementsLeft.initialize(to: AnswerBounds.mostElements)
    guard let reader = unsafe context.pointee.reader,
      unsafe AnswerBounds.bound(reader, by: elementsLeft)
    else { throw RedisError("no memory is left for a connection") }
    // From here on `poll` waits, which keeps the deadline however slowly the server answers.
    unsafe context.pointee.flags &= ~REDIS_BLOCK
    let flags = fcntl(descriptor, F_GETFL)
    guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
      throw RedisError("its connection cannot be set up: \(SystemError.text(errno))")
    }
    if case .tcp = address.place { unsafe redisEnableKeepAlive(context) }
    try logIn(address)
  }

  deinit {
    unsafe redisFree(context)
    unsafe elementsLeft.deallocate()
  }

  /// Connects to the first address of the server that answers.
  private static func connected(
    to address: RedisAddress, patience: Duration
  ) throws(RedisError) -> UnsafeMutablePointer<redisContext> {
    let end = ContinuousClock.now + patience
    guard case .tcp(let host, let port) = address.place else {
      guard case .socket(let path) = address.place else { throw .closed }
      return unsafe try opened(unsafe redisConnectUnixWithTimeout(path, limit(until: end)))
    }
    var problem = RedisError("its name has no address: check it")
    for number in try HostLookup.system.addresses(of: host, patience: patience) {
      do throws(RedisError) {
        return unsafe try opened(
          unsafe redisConnectWithTimeout(number, Int32(port), limit(until: end)))
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

  private static func opened(
    _ made: UnsafeMutablePointer<redisContext>?
  ) throws(RedisError) -> UnsafeMutablePointer<redisContext> {
    guard let context = unsafe made else { throw RedisError("no memory is left for a connection") }
    guard unsafe context.pointee.err == 0 else {
      let problem = unsafe Self.problem(of: context)
      unsafe redisFree(context)
      throw RedisError("\(problem): check the address, and whether the server runs")
    }
    return unsafe context
  }

  private func logIn(_ address: RedisAddress) throws(RedisError) {
    if let password = address.password {
      let words = ["AUTH"] + (address.user.map { [$0] } ?? []) + [password]
      if case .error(let text) = try ask([words])[0] { throw Self.refused(text) }
    }
    if address.database != 0 {
      let answer = try ask([["SELECT", String(address.database)]])[0]
      if case .error(let text) = answer {
        guard text.contains("out of range") else { throw RedisError(answer: text) }
        throw RedisError("it has no database \(address.database): use a smaller number")
      }
    }
    // The name is only for people who list the server's clients, so a refusal does not matter.
    if case .error(let text) = try ask([["CLIENT", "SETNAME", "cbrelay"]])[0],
      text.hasPrefix("NOAUTH")
    {
      throw RedisError(answer: text)
    }
  }

  /// The error for an answer to AUTH.
  ///
  /// The answer is never quoted, because a server that does not know AUTH repeats the password in it.
  private static func refused(_ answer: String) -> RedisError {
    if answer.hasPrefix("WRONGPASS") || answer.hasPrefix("ERR invalid password") {
      return RedisError(answer: "WRONGPASS")
    }
    if answer.contains("without any password configured") {
      return RedisError("it has no password, but one was given: leave it out")
    }
    if answer.contains("wrong number of arguments") {
      return RedisError("it has no users, like every Redis before version 6: leave the user out")
    }
    return RedisError("it refuses to log in: is it a Redis server that takes a password?")
  }

  private var problem: RedisError { unsafe Self.problem(of: context) }

  private static func problem(of context: UnsafeMutablePointer<redisContext>) -> RedisError {
    switch unsafe context.pointee.err {
    case REDIS_ERR_IO:
      return RedisError(errno == 0 ? "the connection failed" : SystemError.text(errno))
    case REDIS_ERR_EOF: return .closed
    case REDIS_ERR_PROTOCOL: return RedisError("it does not speak the protocol of Redis")
    default:
      let text = unsafe withUnsafeBytes(of: context.pointee.errstr) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      return RedisError(OutsideText.quoted(text))
    }
  }
}

/// Asking.
extension RedisConnection {
  /// Sends commands in one piece, and returns the answers to them in order.
  ///
  /// The answers can be errors. After a throw, the connection cannot be used.
  package func ask(_ commands: [[String]]) throws(RedisError) -> [RedisReply] {
    for command in commands { try append(command) }
    let deadline = ContinuousClock.now + patience
    try flush(by: deadline)
    var answers: [RedisReply] = []
    answers.reserveCapacity(commands.count)
    while answers.count < commands.count {
      if let answer = try next() {
        answers.append(answer)
      } else {
        try wait(for: POLLIN, by: deadline)
        try fill()
      }
    }
    return answers
  }

  /// Sends one command, and returns its answer.
  ///
  /// - Throws: `RedisError`, also if the answer is an error.
  package func ask(_ command: [String]) throws(RedisError) -> RedisReply {
    let answer = try ask([command])[0]
    if case .error(let text) = answer { throw RedisError(answer: text) }
    return answer
  }

  /// Sends a command whose answer is read later, with ``answers()``.
  package func send(_ command: [String]) throws(RedisError) {
    try append(command)
    try flush(by: ContinuousClock.now + patience)
  }

  /// Reads what has arrived without waiting, and returns the answers that are complete.
  package func answers() throws(RedisError) -> [RedisReply] {
    try fill()
    var answers: [RedisReply] = []
    while let answer = try next() { answers.append(answer) }
    return answers
  }
}

/// Reading and writing.
extension RedisConnection {
  private func append(_ command: [String]) throws(RedisError) {
    // One buffer holds all words, so that their addresses do not change.
    var bytes: [CChar] = []
    var lengths: [Int] = []
    for word in command {
      bytes += word.utf8.map { CChar(bitPattern: $0) }
      lengths.append(word.utf8.count)
    }
    bytes.append(0)
    let code = unsafe bytes.withUnsafeBufferPointer { buffer in
      var places: [UnsafePointer<CChar>?] = unsafe []
      var offset = 0
      for length in lengths {
        unsafe places.append(buffer.baseAddress.map { unsafe $0 + offset })
        offset += length
      }
      return unsafe redisAppendCommandArgv(context, Int32(lengths.count), &places, lengths)
    }
    guard code == REDIS_OK else { throw problem }
  }

  private func flush(by deadline: ContinuousClock.Instant) throws(RedisError) {
    var isDone: Int32 = 0
    while true {
      errno = 0
      guard unsafe redisBufferWrite(context, &isDone) == REDIS_OK else {
        throw problem
      }
      if isDone != 0 { return }
      try wait(for: POLLOUT, by: deadline)
    }
  }

  private func fill() throws(RedisError) {
    reads += 1
    let read = unsafe context.pointee.reader.map { unsafe Int($0.pointee.len) } ?? 0
    guard reads <= Self.mostReads, read <= AnswerBounds.mostBytes else { throw .tooLong }
    errno = 0
    guard unsafe redisBufferRead(context) == REDIS_OK else {
      throw problem
    }
  }

  /// The next complete answer that has been read; nil if there is none.
  private func next() throws(RedisError) -> RedisReply? {
    var raw: UnsafeMutableRawPointer?
    guard unsafe redisGetReplyFromReader(context, &raw) == REDIS_OK else {
      throw unsafe elementsLeft.pointee < 0 ? .tooLong : problem
    }
    guard let raw = unsafe raw else { return nil }
    reads = 0
    unsafe elementsLeft.pointee = AnswerBounds.mostElements
    defer { unsafe freeReplyObject(raw) }
    return unsafe Self.value(raw.assumingMemoryBound(to: redisReply.self).pointee)
  }

  private static func value(_ reply: redisReply) -> RedisReply {
    switch unsafe reply.type {
    case REDIS_REPLY_INTEGER: return unsafe .integer(reply.integer)
    case REDIS_REPLY_STRING, REDIS_REPLY_STATUS: return unsafe .bytes(bytes(of: reply))
    case REDIS_REPLY_ERROR:
      return unsafe .error(String(decoding: bytes(of: reply), as: UTF8.self))
    case REDIS_REPLY_ARRAY:
      return .array(
        (0..<(unsafe reply.elements)).map { index in
          guard let element = unsafe reply.element[index] else { return .nothing }
          return unsafe value(element.pointee)
        })
    default: return .nothing
    }
  }

  private static func bytes(of reply: redisReply) -> [UInt8] {
    unsafe Array(UnsafeRawBufferPointer(start: reply.str, count: reply.str == nil ? 0 : reply.len))
  }

  private func wait(for event: Int32, by deadline: ContinuousClock.Instant) throws(RedisError) {
    var entry = pollfd(fd: descriptor, events: Int16(event), revents: 0)
    let left = DurationText.milliseconds(deadline - .now)
    guard left > 0 else { throw .late(patience) }
    let count = unsafe poll(&entry, 1, Int32(min(left, 1_000_000)))
    if count == 0 { throw .late(patience) }
  }
}

/// An answer of a Redis server.
package enum RedisReply: Sendable, Hashable {
  case nothing
  case integer(Int64)
  case bytes([UInt8])
  case error(String)
  case array([RedisReply])

  /// The answer as text; nil if it is not text, or not UTF-8.
  package var text: String? {
    guard case .bytes(let bytes) = self else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }

  /// The answer as a whole number, which may have been sent as text.
  package var number: Int64? {
    if case .integer(let number) = self { return number }
    return text.flatMap { Int64($0) }
  }

  /// The answer as a number from 0 to a limit; nil if it is anything else.
  ///
  /// Every number from the server that is computed with comes from here, so that nothing overflows.
  package func number(upTo limit: Int64) -> Int64? {
    number.flatMap { (0...limit).contains($0) ? $0 : nil }
  }

  package var elements: [RedisReply]? {
    guard case .array(let elements) = self else { return nil }
    return elements
  }

  /// The fields and values of an answer that lists them in turn.
  package var pairs: [(field: RedisReply, value: RedisReply)]? {
    guard let elements, elements.count % 2 == 0 else { return nil }
    return stride(from: 0, to: elements.count, by: 2).map { (elements[$0], elements[$0 + 1]) }
  }
}

/// Why a Redis server did not do what the relay asked.
///
/// The description is one line: what failed, why, and what to do if there is something to do.
package struct RedisError: Error, Sendable, Hashable, CustomStringConvertible {
  package var description: String

  package init(_ description: String) { self.description = description }

  /// Creates the error for an answer of the server such as `OOM command not allowed`.
  package init(answer: String) {
    let words = answer.split(separator: " ")
    // Errors of transactions, and of scripts before version 7, have the code inside another text.
    let inner = words.lazy.map { $0.first == "-" ? $0.dropFirst() : $0 }
    // From version 7 on, a script that may not do something gets no such code.
    let isForbidden = answer.hasPrefix("ERR The user executing the script can't ")
    let known = isForbidden ? "NOPERM" : inner.first { Self.meanings[$0] != nil }
    let code = known ?? words.first ?? ""
    self.init(Self.meanings[code] ?? "it answers '\(OutsideText.quoted(answer))'")
  }

  /// What the server's answers mean for a relay, by their first word.
  private static let meanings: [Substring: String] = [
    "OOM": "its memory is full: raise its maxmemory, or free some",
    "READONLY": "it is a read-only replica: give --redis the address of the primary",
    "NOAUTH": "it wants a password: use --password-file or $SHARED_BREAKER_REDIS_PASSWORD",
    "WRONGPASS": "it refuses the user or the password: check them",
    "NOPERM": "its user may not do this: the guide 'A Fleet of Hosts' says what a relay needs",
    "LOADING": "it is still loading its data",
    "MASTERDOWN": "it is a replica whose primary is away",
    "MISCONF": "it cannot save to its disk, so it refuses writes: look at its log",
    "MOVED": "it is one of a cluster, and another node has the fleet's keys: use that node",
    "CLUSTERDOWN": "its cluster is down",
    "UNBLOCKED": "it has become a replica",
    "WRONGTYPE": "something else uses the keys of this fleet: choose another name for the fleet",
    "NOSCRIPT": "it has lost the relay's scripts",
  ]

  package static let closed = RedisError("it closed the connection")

  package static let tooLong = RedisError("its answer is too long")

  package static func late(_ patience: Duration) -> RedisError {
    RedisError("it has not answered for \(DurationText.format(patience))")
  }

  package static func unexpected(_ what: String) -> RedisError {
    RedisError("its answer to \(what) makes no sense: is it a Redis server of version 5 or later?")
  }
}
