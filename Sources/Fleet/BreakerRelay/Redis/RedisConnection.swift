internal import CHiredis
internal import Glibc
internal import ProgramKit
internal import SharedBreaker

/// A connection to a Redis server, on which nothing waits for longer than a deadline.
///
/// It belongs to one thread.
@safe package final class RedisConnection {
  /// The server, which is not an address of sentinels.
  package let address: RedisAddress

  private let transport: RedisTransport
  private let reader: UnsafeMutablePointer<redisReader>
  private let patience: Duration

  /// How many elements the answer that is being read may still have.
  private let elementsLeft: UnsafeMutablePointer<Int>

  /// Bytes that have not gone out yet.
  private var outgoing: [UInt8] = []

  /// Where bytes arrive; a record of TLS has no more.
  private var arriving = [UInt8](repeating: 0, count: 16_384)

  /// How often something was read since the last complete answer.
  private var reads = 0

  /// How many reads, of at most 16 KiB each, an answer may take.
  private static let mostReads = 16_384

  /// The event of `poll` before which nothing can be read.
  package private(set) var awaited = POLLIN

  /// The descriptor of the connection, to wait for answers with `poll`.
  package var descriptor: Int32 { transport.descriptor }

  /// The encryption in words; nil if there is none.
  package var encryption: String? { transport.encryption }

  /// Connects, and logs in if the address has a password.
  ///
  /// - Parameters:
  ///   - address: The server.
  ///   - patience: How long to wait for the server in each of these steps.
  /// - Throws: `RedisError` if the server does not answer in time, refuses, or is not who it should be.
  package init(to address: RedisAddress, patience: Duration) throws(RedisError) {
    transport = try RedisTransport(to: address, patience: patience)
    self.address = address
    self.patience = patience
    guard let reader = unsafe redisReaderCreate() else {
      throw RedisError("no memory is left for a connection")
    }
    unsafe self.reader = unsafe reader
    unsafe elementsLeft = UnsafeMutablePointer<Int>.allocate(capacity: 1)
    unsafe elementsLeft.initialize(to: AnswerBounds.mostElements)
    guard unsafe AnswerBounds.bound(reader, by: elementsLeft) else {
      throw RedisError("no memory is left for a connection")
    }
    do throws(RedisError) {
      try logIn(address)
    } catch {
      guard case .tcp = address.place, address.tls == nil, error == .closed || error == .noRedis
      else { throw error }
      throw RedisError("\(error): use rediss:// or sentinels:// if its port speaks TLS")
    }
  }

  /// Connects to the server that an address leads to, after asking the sentinels of one that has some.
  ///
  /// - Parameters:
  ///   - address: The address.
  ///   - patience: How long to wait for the server in each step.
  ///   - favourite: The server to try before the sentinels are asked.
  /// - Returns: A connection, of which only sentinels make sure that it is to a primary.
  /// - Throws: `RedisError`, also if the sentinels name no server that is a primary.
  package static func primary(
    of address: RedisAddress, patience: Duration, trying favourite: Sentinels.Member? = nil
  ) throws(RedisError) -> RedisConnection {
    guard case .sentinels(let sentinels) = address.place else {
      return try RedisConnection(to: address, patience: patience)
    }
    return try sentinels.connect(for: address, patience: patience, trying: favourite)
  }

  deinit {
    unsafe redisReaderFree(reader)
    unsafe elementsLeft.deallocate()
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

  private var problem: RedisError {
    unsafe reader.pointee.err == REDIS_ERR_OOM
      ? RedisError("no memory is left for its answer")
      : .noRedis
  }
}

/// Asking.
extension RedisConnection {
  /// Sends commands in one piece, and returns the answers to them in order.
  ///
  /// The answers can be errors. After a throw, the connection cannot be used.
  package func ask(_ commands: [[String]]) throws(RedisError) -> [RedisReply] {
    for command in commands { append(command) }
    let deadline = ContinuousClock.now + patience
    try flush(by: deadline)
    var answers: [RedisReply] = []
    answers.reserveCapacity(commands.count)
    while answers.count < commands.count {
      if let answer = try next() {
        answers.append(answer)
      } else {
        try wait(for: awaited, by: deadline)
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
    append(command)
    try flush(by: ContinuousClock.now + patience)
  }

  /// Reads without waiting, and returns the answers that are complete.
  package func answers() throws(RedisError) -> [RedisReply] {
    try fill()
    var answers: [RedisReply] = []
    while let answer = try next() { answers.append(answer) }
    return answers
  }
}

/// Reading and writing.
extension RedisConnection {
  private func append(_ command: [String]) {
    outgoing += "*\(command.count)\r\n".utf8
    for word in command {
      outgoing += "$\(word.utf8.count)\r\n".utf8
      outgoing += word.utf8
      outgoing += "\r\n".utf8
    }
  }

  private func flush(by deadline: ContinuousClock.Instant) throws(RedisError) {
    var written = 0
    while written < outgoing.count {
      switch try transport.write(outgoing[written...]) {
      case .moved(let count): written += count
      case .waits(let event): try wait(for: event, by: deadline)
      }
    }
    outgoing.removeAll(keepingCapacity: written <= 65_536)
  }

  /// Reads the bytes that have arrived, if there are any.
  private func fill() throws(RedisError) {
    repeat {
      reads += 1
      let kept = unsafe Int(reader.pointee.len)
      guard reads <= Self.mostReads, kept <= AnswerBounds.mostBytes else { throw .tooLong }
      switch try transport.read(into: &arriving) {
      case .moved(let count):
        awaited = POLLIN
        let code = unsafe arriving.withUnsafeBytes { bytes in
          unsafe redisReaderFeed(
            reader, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), count)
        }
        guard code == REDIS_OK else { throw problem }
      case .waits(let event): awaited = event
      }
    } while transport.hasUnread
  }

  /// The next complete answer that has been read; nil if there is none.
  private func next() throws(RedisError) -> RedisReply? {
    var raw: UnsafeMutableRawPointer?
    guard unsafe redisReaderGetReply(reader, &raw) == REDIS_OK else {
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
    guard RedisTransport.wait(for: event, of: descriptor, by: deadline) else {
      throw .late(patience)
    }
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

/// Why a Redis server did not carry out a request.
///
/// The description is one line: the action that failed, the cause, and the remedy if there is one.
package struct RedisError: Error, Sendable, Hashable, CustomStringConvertible {
  package var description: String

  package init(_ description: String) { self.description = description }

  /// Creates the error for an answer of the server such as `OOM command not allowed`.
  package init(answer: String) {
    guard !Self.isUnknownCommand(answer) else {
      self = .unknownCommand(answer)
      return
    }
    let words = answer.split(separator: " ")
    // Errors of transactions, and of scripts before version 7, have the code inside another text.
    let inner = words.lazy.map { $0.first == "-" ? $0.dropFirst() : $0 }
    // From version 7 on, a script that may not do something gets no such code.
    let isForbidden = answer.hasPrefix("ERR The user executing the script can't ")
    let known = isForbidden ? "NOPERM" : inner.first { Self.meanings[$0] != nil }
    let isFull = answer.hasPrefix("ERR max number of clients")
    let code = isFull ? "maxclients" : known ?? words.first ?? ""
    self.init(Self.meanings[code] ?? "it answers '\(OutsideText.quoted(answer))'")
  }

  /// Whether an answer says that the server does not know a command; scripts say it in other words.
  static func isUnknownCommand(_ answer: String) -> Bool {
    answer.hasPrefix("ERR unknown command") || answer.contains("Unknown command called")
      || answer.contains("Unknown Redis command called")
  }

  /// The error for a command that does not exist, without the words that were sent with it.
  private static func unknownCommand(_ answer: String) -> RedisError {
    let parts = answer.split(maxSplits: 2, omittingEmptySubsequences: false) {
      $0 == "'" || $0 == "`"
    }
    let isNamed = answer.hasPrefix("ERR unknown command") && parts.count == 3
    let command =
      isNamed ? OutsideText.quoted(String(parts[1])) : "a command of the relay's scripts"
    return RedisError(
      "it does not know \(command): use Redis from version 5 on, or Valkey, without renamed commands"
    )
  }

  /// The meanings of the server's answers for a relay, by their first word.
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
    "maxclients": "it has no room for another client: raise its maxclients",
    "NOSCRIPT": "it has lost the relay's scripts",
  ]

  package static let closed = RedisError("it closed the connection")

  /// The error for a connection that the system has given up, by the system's number.
  package static func broken(_ number: Int32) -> RedisError {
    [0, ECONNRESET, EPIPE].contains(number) ? .closed : RedisError(SystemError.text(number))
  }

  package static let noRedis = RedisError("it does not speak the protocol of Redis")

  package static let tooLong = RedisError("its answer is too long")

  package static func late(_ patience: Duration) -> RedisError {
    RedisError("it has not answered for \(DurationText.format(patience))")
  }

  package static func unexpected(_ what: String) -> RedisError {
    RedisError("its answer to \(what) makes no sense: is it a Redis server of version 5 or later?")
  }
}
