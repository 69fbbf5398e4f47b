internal import SharedBreaker

/// The address of a Redis server, with the user, password and database.
package struct RedisAddress: Sendable, Hashable {
  /// How the server is reached.
  package enum Place: Sendable, Hashable {
    case tcp(host: String, port: UInt16)
    case socket(path: String)

    /// The primary that sentinels name.
    case sentinels(Sentinels)
  }

  package var place: Place
  package var user: String?
  package var password: String?
  package var database = 0

  /// How the connection is encrypted; nil if it is not, as always with a socket of this host.
  package var tls: RedisTLS?

  package init(
    _ place: Place, tls: RedisTLS? = nil, user: String? = nil, password: String? = nil,
    database: Int = 0
  ) {
    self.place = place
    self.tls = tls
    self.user = user
    self.password = password
    self.database = database
  }
}

extension RedisAddress: CustomStringConvertible {
  /// The address for messages, without the password.
  package var description: String {
    let name = user.map { OutsideText.quoted($0) + "@" } ?? ""
    let part = database == 0 ? "" : "/\(database)"
    switch place {
    case .tcp(let host, let port):
      let server = Sentinels.Member(host: host, port: port)
      return "\(tls == nil ? "redis" : "rediss")://\(name)\(server)\(part)"
    case .sentinels(let sentinels):
      let members = sentinels.members.map(\.description).joined(separator: ",")
      let scheme = tls == nil ? "sentinel" : "sentinels"
      return "\(scheme)://\(name)\(members)/\(OutsideText.quoted(sentinels.name))\(part)"
    case .socket(let path):
      return "unix://\(name)\(OutsideText.visible(path))" + (database == 0 ? "" : "?db=\(database)")
    }
  }
}

/// Reading addresses.
extension RedisAddress {
  /// Reads `redis://[user[:password]@]host[:port][/database]`, the same with `rediss://` for TLS,
  /// `sentinel://[user[:password]@]host[:port][,host[:port]...]/name[/database]`, the same with
  /// `sentinels://` for TLS, or `unix:///path[?db=database]`.
  ///
  /// User and password are percent-encoded, as in every URL.
  ///
  /// - Throws: `UsageError`, which quotes no part of the text, because any part may be the password.
  package init(_ text: String) throws(UsageError) {
    guard let mark = Self.place(of: "://", in: text) else { throw Self.unreadable }
    var rest = text[mark.upperBound...]
    switch text[..<mark.lowerBound] {
    case "redis": self.init(.tcp(host: "", port: 6_379))
    case "unix": self.init(.socket(path: ""))
    case "rediss": self.init(.tcp(host: "", port: 6_379), tls: RedisTLS())
    case "sentinel": self.init(.sentinels(Sentinels([], name: "")))
    case "sentinels": self.init(.sentinels(Sentinels([], name: "")), tls: RedisTLS())
    default: throw Self.unreadable
    }
    try takeUser(from: &rest)
    switch place {
    case .tcp: try takeServer(from: rest)
    case .sentinels: try takeSentinels(from: rest)
    case .socket: try takeSocket(from: rest)
    }
  }

  private static let notEncoded = UsageError(
    "the user or the password in the address of the Redis server has characters that are not encoded",
    "write %2F for /, %3A for :, %3F for ?, %40 for @ and %25 for %")

  private static let unreadable = UsageError(
    "not an address of a Redis server",
    "use redis://HOST:PORT, rediss://HOST:PORT for TLS, sentinel://HOST:PORT,HOST:PORT/NAME, or"
      + " unix:///PATH, such as redis://redis.internal:6379")

  private static func place(of mark: String, in text: String) -> Range<String.Index>? {
    let bytes = Array(mark.utf8)
    var start = text.utf8.startIndex
    while start < text.utf8.endIndex {
      if text.utf8[start...].starts(with: bytes) {
        return start..<text.utf8.index(start, offsetBy: bytes.count)
      }
      start = text.utf8.index(after: start)
    }
    return nil
  }

  private mutating func takeUser(from rest: inout Substring) throws(UsageError) {
    // A path may contain an @; the user comes before the first slash.
    let end = rest.firstIndex(of: "/") ?? rest.endIndex
    guard let at = rest[..<end].lastIndex(of: "@") else {
      if rest.first != "/", rest.contains("@") { throw Self.notEncoded }
      return
    }
    // A later @ may be the one that ends the password.
    if rest[end...].contains("@") { throw Self.notEncoded }
    let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    rest = rest[rest.index(after: at)...]
    let name = try Self.decoded(parts[0])
    user = name.isEmpty ? nil : name
    if parts.count == 2 { password = try Self.decoded(parts[1]) }
  }

  private mutating func takeServer(from rest: Substring) throws(UsageError) {
    let parts = rest.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    if parts.count == 2, !parts[1].isEmpty { database = try Self.database(parts[1]) }
    let server = try Self.server(parts[0], usualPort: 6_379)
    place = .tcp(host: server.host, port: server.port)
  }

  private mutating func takeSentinels(from rest: Substring) throws(UsageError) {
    let parts = rest.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count > 1, !parts[1].isEmpty, Self.isPlain(parts[1]) else {
      throw UsageError(
        "the address of the sentinels does not name the primary that they watch",
        "use sentinel://HOST:PORT,HOST:PORT/NAME, with the name after 'sentinel monitor' in their"
          + " configuration")
    }
    if parts.count == 3, !parts[2].isEmpty { database = try Self.database(parts[2]) }
    let members = try parts[0].split(separator: ",", omittingEmptySubsequences: false).map {
      text throws(UsageError) in try Self.server(text, usualPort: 26_379)
    }
    place = .sentinels(Sentinels(members, name: String(parts[1])))
  }

  /// Reads `host[:port]`.
  private static func server(
    _ text: Substring, usualPort: UInt16
  ) throws(UsageError) -> Sentinels.Member {
    var server = text
    let host: Substring
    if server.first == "[" {
      guard let end = server.firstIndex(of: "]") else { throw Self.unreadable }
      host = server[server.index(after: server.startIndex)..<end]
      server = server[server.index(after: end)...]
      guard server.isEmpty || server.first == ":" else { throw Self.unreadable }
    } else {
      host = server.prefix { $0 != ":" }
      server = server[host.endIndex...]
    }
    guard !host.isEmpty, Self.isPlain(host), !host.contains(",") else { throw Self.unreadable }
    var port = usualPort
    if !server.isEmpty {
      guard let number = UInt16(server.dropFirst()), number > 0 else {
        throw UsageError(
          "the port of the Redis server makes no sense", "use a number from 1 to 65535")
      }
      port = number
    }
    return Sentinels.Member(host: String(host), port: port)
  }

  /// The longest path that the system can connect to.
  private static let longestPath = 107

  private mutating func takeSocket(from rest: Substring) throws(UsageError) {
    let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    let path = try Self.decoded(parts[0])
    guard path.utf8.first == UInt8(ascii: "/") else {
      throw UsageError(
        "the path of a Redis socket must be absolute", "use unix:///PATH, with three slashes")
    }
    guard path.utf8.count <= Self.longestPath else {
      throw UsageError(
        "the path of the Redis socket has \(path.utf8.count) bytes, and \(Self.longestPath) is the"
          + " limit", "use a shorter path, or a symbolic link")
    }
    place = .socket(path: path)
    guard parts.count == 2 else { return }
    guard parts[1].hasPrefix("db=") else {
      throw UsageError(
        "the path of the Redis socket has an option that is unknown", "use ?db=NUMBER or nothing")
    }
    database = try Self.database(parts[1].dropFirst(3))
  }

  private static func database(_ text: Substring) throws(UsageError) -> Int {
    guard let number = UInt16(text) else {
      throw UsageError(
        "the database of the Redis server makes no sense", "use its number, such as 0")
    }
    return Int(number)
  }

  /// Whether a text has no space, and nothing that would mislead its reader.
  private static func isPlain(_ text: Substring) -> Bool {
    OutsideText.visible(String(text)) == text && !text.contains(" ")
  }

  /// Decodes percent-encoded text.
  private static func decoded(_ text: Substring) throws(UsageError) -> String {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      let digits = rest.prefix(2)
      guard digits.count == 2, let value = UInt8(String(Substring(digits)), radix: 16), value > 0
      else {
        throw UsageError(
          "a % in the address of the Redis server is not followed by two hexadecimal digits",
          "write %25 for a % itself")
      }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    guard let result = String(validating: bytes, as: UTF8.self) else { throw unreadable }
    return result
  }
}
