import BreakerRelay
import SharedBreaker
import TestSupport
import Testing

/// The rights of the server user that the guide "A Fleet of Hosts" creates.
@Suite(
  .enabled(if: RedisServer.isInstalled, "redis-server is not installed"),
  .enabled(if: RedisServer.hasUsers, "the server has no users"))
struct PermissionTests {
  /// The line of the guide, with a password and for the fleet of the tests.
  private static func user() throws -> String {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let path = "/\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc/AFleetOfHosts.md"
    let guide = String(decoding: try Files.read(path), as: UTF8.self)
    let line = guide.split(separator: "\n").first { $0.hasPrefix("user cbrelay ") }
    return String(try #require(line)).replacing(">PASSWORD", with: ">geheim")
      .replacing("{prod}", with: "{test}")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the user in the guide may do everything that a relay does`() async throws {
    let directory = try TemporaryDirectory()
    let list = directory.file("users.acl")
    try Files.write(list, Array((try Self.user() + "\n").utf8))
    let server = try RedisServer(in: directory, options: ["--aclfile", list])
    let address = "unix://cbrelay:geheim@\(server.socket)?db=1"
    func ask(_ command: String, _ key: String) throws -> String {
      try server.command("-n", "1", command, "sb:{test}:\(key)")
    }
    // Evidence of a host that is gone, which the first relay forgets.
    try server.command("-n", "1", "HSET", "sb:{test}:evidence", "db\nz", "1 1 5")
    let hosts = try ["a", "b"].map {
      try TestHost($0, as: $0, in: directory, address: address)
    }
    let (a, b) = (hosts[0], hosts[1])
    #expect(RelayCheck(a.options).isWell, "\(RelayCheck(a.options).lines)")
    for host in hosts {
      host.start()
      try await host.awaits(.connected)
    }
    #expect(try ask("EXISTS", "evidence") == "0")

    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    try a.breaker("db", sharedPolicy).trip()
    try await eventually("b shows a's breaker") {
      try StatusClient.ask("status", of: b).contains(#"{"name":"db","state":"open""#)
    }
    #expect(try ask("HKEYS", "evidence") == "db\na")
    #expect(try a.store.delete("db"))
    try await eventually("a says nothing of the breaker any more") {
      try ask("EXISTS", "evidence") == "0" && !ask("HKEYS", "host:a").contains("db")
    }

    for host in hosts { host.stop() }
    #expect(try ask("EXISTS", "hosts") == "0")
    #expect(try server.command("-n", "1", "HGET", "sb:{test}:host:a", "").contains(#""left":true"#))
    #expect(try server.command("ACL", "LOG") == "")
  }

  @Test(arguments: [
    ("+multi", "run MULTI"), ("+exec", "run EXEC"), ("+evalsha", "run EVALSHA"),
    ("+script|load", "run SCRIPT"), ("+xadd", "run XADD"), ("+hscan", "run HSCAN"),
    ("+zrange", "run ZRANGE"), ("+zremrangebyscore", "run ZREMRANGEBYSCORE"),
    ("+info", "run INFO"), ("+role", "run ROLE"), ("~sb:{test}:*", "use the keys sb:{test}:*"),
  ])
  func `the check names what the user may not do, and changes nothing`(
    right: String, refused: String
  ) throws {
    let directory = try TemporaryDirectory()
    let list = directory.file("users.acl")
    let user = try (Self.user() + " ").replacing(
      " \(right) ", with: right.hasPrefix("~") ? " ~sb:{other}:* " : " ")
    try Files.write(list, Array((user + "\n").utf8))
    let server = try RedisServer(in: directory, options: ["--aclfile", list])
    try server.command("-n", "1", "HSET", "sb:{test}:host:a", "", "kept")
    let host = try TestHost(
      "a", as: "a", in: directory, address: "unix://cbrelay:geheim@\(server.socket)?db=1")
    let check = RelayCheck(host.options)
    #expect(!check.isWell)
    #expect(
      check.lines.last?.contains(": its user may not \(refused): the guide") == true,
      "\(check.lines)")
    #expect(try server.command("-n", "1", "HGET", "sb:{test}:host:a", "") == "kept")
    #expect(try server.command("-n", "1", "DBSIZE") == "1")
  }

  @Test func `the guide permits what a relay needs, and no more`() throws {
    let permitted = Set(
      try Self.user().split(separator: " ").filter { $0.hasPrefix("+") }.map { $0.dropFirst() })
    let needed = FleetRights.commands(FleetKeys(fleet: "prod"), host: "a").map { words in
      words[0] == "SCRIPT" ? "script|load" : words[0].lowercased()
    }
    let besides: Set<Substring> = ["multi", "exec", "select", "client|setname"]
    #expect(permitted == besides.union(needed.map { $0[...] }))
  }
}
