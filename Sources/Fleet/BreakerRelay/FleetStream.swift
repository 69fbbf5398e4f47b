internal import Glibc
@_spi(Relay) internal import SharedBreaker

/// The stream of a fleet's messages, on a connection of its own.
final class FleetStream {
  private let connection: RedisConnection
  private let key: String
  private var askedAt = ContinuousClock.now

  /// How long the server waits for messages before it answers that there are none.
  private static let wait = Duration.seconds(5)

  /// An entry of the stream, as the server keeps it.
  struct Entry {
    var name: String

    /// When the server received it, in milliseconds of its clock.
    var time: Int64

    /// The number in the message; nil if there is none.
    var number: Int64?
    var fields: RedisReply
  }

  init(_ context: RelayContext, at address: RedisAddress) throws(RelayTrouble) {
    key = context.keys.stream
    connection = try served { () throws(RedisError) in
      try RedisConnection(to: address, patience: RelayContext.patience)
    }
  }

  /// The event before which nothing can have arrived.
  var awaited: pollfd {
    pollfd(fd: connection.descriptor, events: Int16(connection.awaited), revents: 0)
  }

  /// When the server has to have answered.
  var deadline: ContinuousClock.Instant { askedAt + Self.wait + RelayContext.patience }

  /// Checks that the server lets this host read the stream.
  func check(after entry: String) throws(RelayTrouble) {
    _ = try served { () throws(RedisError) in
      try connection.ask(["XREAD", "COUNT", "1", "STREAMS", key, entry])
    }
  }

  /// Asks for the entries after one.
  func ask(after entry: String) throws(RelayTrouble) {
    askedAt = .now
    let words = [
      "XREAD", "COUNT", "1000", "BLOCK", String(Self.wait.components.seconds * 1_000), "STREAMS",
      key, entry,
    ]
    try served { () throws(RedisError) in try connection.send(words) }
  }

  /// Returns the entries that have arrived; nil if the server has not answered yet.
  func arrived() throws(RelayTrouble) -> [Entry]? {
    try served { () throws(RedisError) in
      guard let answer = try connection.answers().first else { return nil }
      switch answer {
      case .nothing: return []
      case .error(let text): throw RedisError(answer: text)
      default: break
      }
      guard let entries = answer.elements?.first?.elements?.last?.elements else {
        throw .unexpected("XREAD")
      }
      return try entries.map { entry throws(RedisError) in try Self.entry(entry) }
    }
  }

  private static func entry(_ reply: RedisReply) throws(RedisError) -> Entry {
    guard let parts = reply.elements, parts.count == 2, let name = parts[0].text
    else { throw .unexpected("XREAD") }
    // An impossible time counts as one in the future, so that nothing counts as old because of it.
    let time = ServerClock.time(name.prefix { $0 != "-" }) ?? ServerClock.latest
    let number = parts[1].pairs?.first { $0.field.text == "n" }?.value
      .number(upTo: FleetCommand.highestStamp)
    return Entry(name: name, time: time, number: number, fields: parts[1])
  }
}
