internal import ProgramKit
internal import SharedBreaker

/// Sentinels of Redis, and the name of the primary that they watch.
package struct Sentinels: Sendable, Hashable {
  /// Where a sentinel, or a server that it names, can be reached.
  package struct Member: Sendable, Hashable, CustomStringConvertible {
    package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) {
      self.host = host
      self.port = port
    }

    /// The address, with brackets where a colon would mislead.
    package var description: String {
      let host = OutsideText.quoted(host)
      return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
  }

  package var members: [Member]

  /// The sentinels' name for the primary.
  package var name: String

  /// The user and the password of the sentinels, which need not be those of the primary.
  package var user: String?
  package var password: String?

  package init(
    _ members: [Member], name: String, user: String? = nil, password: String? = nil
  ) {
    self.members = members
    self.name = name
    self.user = user
    self.password = password
  }

  /// How long to wait for one sentinel, because the next may know what it does not tell.
  static let patience = Duration.seconds(1)
}

/// Asking.
extension Sentinels {
  /// Connects to a sentinel; its connection is encrypted like that of the primary.
  func connect(
    to member: Member, tls: RedisTLS?, patience: Duration = Self.patience
  ) throws(RedisError) -> RedisConnection {
    do throws(RedisError) {
      return try RedisConnection(
        to: RedisAddress(
          .tcp(host: member.host, port: member.port), tls: tls, user: user, password: password),
        patience: min(patience, Self.patience))
    } catch {
      throw RedisError("the sentinel \(member): \(Self.words(for: error))")
    }
  }

  /// The primary that a sentinel names.
  func primary(
    namedBy member: Member, over connection: RedisConnection
  ) throws(RedisError) -> Member {
    do throws(RedisError) {
      let answer = try connection.ask([["SENTINEL", "get-master-addr-by-name", name]])[0]
      switch answer {
      case .error(let text):
        guard RedisError.isUnknownCommand(text) else { throw RedisError(answer: text) }
        throw RedisError("it is no sentinel: use its port, 26379 if nobody has changed it")
      case .nothing:
        throw RedisError(
          "it knows no primary '\(OutsideText.quoted(name))': use the name that 'sentinel monitor'"
            + " gives it")
      case .array(let parts):
        guard parts.count == 2, let host = parts[0].text, !host.isEmpty,
          let port = parts[1].number(upTo: 65_535), port > 0
        else { throw RedisError.unexpected("SENTINEL") }
        return Member(host: host, port: UInt16(port))
      case .bytes, .integer: throw RedisError.unexpected("SENTINEL")
      }
    } catch {
      throw RedisError("the sentinel \(member): \(Self.words(for: error))")
    }
  }

  /// The meaning of an error if the server is a sentinel.
  private static func words(for error: RedisError) -> String {
    error == RedisError(answer: "NOAUTH")
      ? "it wants a password: use --sentinel-password-file or $SHARED_BREAKER_REDIS_SENTINEL_PASSWORD"
      : error.description
  }

  /// Connects to the primary, which must say that it is one.
  ///
  /// The sentinels are asked in turn until more than half of them agree. The answer of one may be out of
  /// date, or false, and the server that it names gets the password: the one that most name is tried first.
  ///
  /// - Parameters:
  ///   - address: The address that names these sentinels.
  ///   - patience: How long to wait for the primary in each step.
  ///   - favourite: The server that most sentinels have named last, which is tried first.
  /// - Returns: A connection to the primary.
  /// - Throws: `RedisError` if no sentinel names a server that can be used.
  func connect(
    for address: RedisAddress, patience: Duration, trying favourite: Member?
  ) throws(RedisError) -> RedisConnection {
    var tried: Set<Member> = []
    var problem: RedisError?
    func attempt(_ member: Member) -> RedisConnection? {
      guard tried.insert(member).inserted else { return nil }
      do throws(RedisError) {
        return try Self.connect(to: member, for: address, patience: patience)
      } catch {
        problem = error
        return nil
      }
    }
    if let favourite, let connection = attempt(favourite) { return connection }
    var silence: RedisError?
    var named: [Member] = []
    func votes(_ member: Member) -> Int { named.count { $0 == member } }
    for sentinel in members where !named.contains(where: { votes($0) > members.count / 2 }) {
      do throws(RedisError) {
        let connection = try connect(to: sentinel, tls: address.tls, patience: patience)
        named.append(try primary(namedBy: sentinel, over: connection))
      } catch {
        silence = silence ?? error
      }
    }
    for member in named.sorted(by: { votes($0) > votes($1) }) {
      if let connection = attempt(member) { return connection }
    }
    // The problem of a primary is of more use than that a sentinel says nothing.
    throw problem ?? silence ?? RedisError("no sentinel is given: name one")
  }

  /// Connects to a server that sentinels have named.
  ///
  /// - Throws: `RedisError` if it cannot be used, or is a replica.
  static func connect(
    to member: Member, for address: RedisAddress, patience: Duration
  ) throws(RedisError) -> RedisConnection {
    do throws(RedisError) {
      var address = address
      address.place = .tcp(host: member.host, port: member.port)
      let connection = try RedisConnection(to: address, patience: patience)
      guard case .replica = ServerRole(try connection.ask([["ROLE"]])[0]) else { return connection }
      throw RedisError("it is a replica: a failover may be under way")
    } catch {
      throw RedisError("the sentinels name \(member): \(error)")
    }
  }

  /// The server that more sentinels name than another one; nil if that is the one in use.
  ///
  /// Sentinels that were cut off, or have not heard of a failover yet, name the primary of before.
  package static func better(than current: Member, _ named: [Member]) -> Member? {
    var votes: [Member: Int] = [:]
    for member in named { votes[member, default: 0] += 1 }
    let best = votes.max { one, other in
      // Equal numbers are put into an order, so that all hosts choose the same.
      (one.value, other.key.description) < (other.value, one.key.description)
    }
    guard let best, best.value > votes[current, default: 0] else { return nil }
    return best.key
  }
}

/// The role of a server, as it says itself.
enum ServerRole {
  case primary, replica, sentinel

  /// The server does not say, or may not be asked.
  case unknown

  init(_ answer: RedisReply) {
    switch answer.elements?.first?.text {
    case "master": self = .primary
    case "slave": self = .replica
    case "sentinel": self = .sentinel
    default: self = .unknown
    }
  }

  /// Checks that a relay can use the server.
  func check() throws(RedisError) {
    switch self {
    case .primary, .unknown: break
    case .replica: throw RedisError(answer: "READONLY")
    case .sentinel: throw RedisError("it is a sentinel: use sentinel://HOST:PORT/NAME")
    }
  }
}
