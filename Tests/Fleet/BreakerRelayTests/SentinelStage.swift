import BreakerRelay
import TestSupport

/// A primary with a replica, and real sentinels that watch them under the name `main`.
final class SentinelStage {
  let directory: TemporaryDirectory
  let servers: [RedisServer]
  let ports: [UInt16]
  private(set) var sentinels: [RedisServer] = []
  private(set) var members: [Sentinels.Member] = []

  /// The password of the sentinels, and that of the servers.
  private let passwords: (sentinels: String?, servers: String?)
  private let tls: RedisTLS?

  /// Starts them all, and waits until the sentinels know the replica and each other.
  ///
  /// - Parameters:
  ///   - directory: Where their files are.
  ///   - count: How many sentinels there are; half of them and one more decide.
  ///   - passwords: The passwords of the sentinels and of the servers.
  ///   - tls: The configuration of all connections, if they are encrypted.
  ///   - options: The options of servers and sentinels, from their port.
  /// - Throws: If one of them does not start.
  init(
    in directory: TemporaryDirectory, sentinels count: Int = 3,
    passwords: (sentinels: String?, servers: String?) = (nil, nil), tls: RedisTLS? = nil,
    options: @escaping (String) -> [String] = { ["--port", $0] }
  ) throws {
    self.directory = directory
    self.passwords = passwords
    self.tls = tls
    let common = ["--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]
    let secret = passwords.servers.map { ["--requirepass", $0, "--masterauth", $0] } ?? []
    let first = try RedisServer.atPort(in: directory, name: "first.sock") {
      options($0) + common + secret
    }
    let second = try RedisServer.atPort(in: directory, name: "second.sock") {
      options($0) + common + secret + ["--replicaof", "127.0.0.1", first.port]
    }
    servers = [first.server, second.server]
    ports = try [first.port, second.port].map { try Self.number($0) }
    for index in 0..<count {
      try startSentinel(index, quorum: count / 2 + 1, options: options)
    }
  }

  deinit {
    for server in servers + sentinels { server.kill() }
  }

  private func startSentinel(
    _ index: Int, quorum: Int, options: (String) -> [String]
  ) throws {
    let name = "sentinel-\(index)"
    let file = directory.file("\(name).conf")
    var lines = [
      "sentinel monitor main 127.0.0.1 \(ports[0]) \(quorum)",
      "sentinel down-after-milliseconds main 5000", "sentinel failover-timeout main 2000",
    ]
    if let password = passwords.servers { lines.append("sentinel auth-pass main \(password)") }
    if let password = passwords.sentinels { lines.append("sentinel sentinel-pass \(password)") }
    try Files.write(file, Array((lines.joined(separator: "\n") + "\n").utf8))
    let secret = passwords.sentinels.map { ["--requirepass", $0] } ?? []
    let (sentinel, port) = try RedisServer.atPort(
      in: directory, name: "\(name).sock", configuration: file
    ) { options($0) + ["--bind", "127.0.0.1", "--sentinel"] + secret }
    sentinels.append(sentinel)
    members.append(Sentinels.Member(host: "127.0.0.1", port: try Self.number(port)))
  }

  private static func number(_ text: String) throws -> UInt16 {
    guard let number = UInt16(text) else { throw SupportError("port \(text)") }
    return number
  }

  /// The address that names the sentinels.
  var address: RedisAddress {
    RedisAddress(
      .sentinels(Sentinels(members, name: "main", password: passwords.sentinels)), tls: tls,
      password: passwords.servers)
  }

  /// The address of one of the servers.
  func address(of index: Int) -> RedisAddress {
    RedisAddress(
      .tcp(host: "127.0.0.1", port: ports[index]), tls: tls, password: passwords.servers)
  }

  /// Waits until the sentinels know of the replica and of each other, so that a failover can begin.
  func isReady() async throws {
    for sentinel in sentinels {
      try await eventually("a sentinel knows all others and a replica that is in step") {
        let facts = try ask(sentinel, "SENTINEL", "REPLICAS", "main")
        let others = try ask(sentinel, "SENTINEL", "SENTINELS", "main")
        return facts.contains("master-link-status\nok")
          && others.split(separator: "\n").count { $0 == "runid" } == sentinels.count - 1
      }
    }
  }

  /// Sends a command to a sentinel, and returns the answer as redis-cli prints it.
  @discardableResult
  func ask(_ sentinel: RedisServer, _ words: String...) throws -> String {
    try sentinel.command(
      words: (passwords.sentinels.map { ["-a", $0, "--no-auth-warning"] } ?? []) + words)
  }

  /// A host whose relay asks the sentinels.
  func host(_ name: String) throws -> TestHost {
    try TestHost(name, as: name, in: directory, server: address)
  }
}
