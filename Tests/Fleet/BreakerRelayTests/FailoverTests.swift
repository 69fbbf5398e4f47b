import BreakerRelay
import SharedBreaker
import TestSupport
import Testing

/// A fleet whose server is replaced by its replica.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct FailoverTests {
  private let directory: TemporaryDirectory
  private let primary: RedisServer
  private let replica: RedisServer
  private let hosts: [TestHost]

  /// The link by which the hosts connect to the server that is the primary.
  private let way: String

  init() async throws {
    directory = try TemporaryDirectory()
    let (primary, port) = try RedisServer.primary(in: directory, name: "first.sock")
    self.primary = primary
    replica = try RedisServer(
      in: directory, name: "second.sock", options: ["--replicaof", "127.0.0.1", port])
    way = directory.file("redis.sock")
    try Files.link(way, to: primary.socket)
    hosts = try ["a", "b"].map { [way, directory] name in
      try TestHost(name, as: name, in: directory, address: "unix://\(way)")
    }
    for host in hosts {
      host.start()
      try await host.awaits(.connected)
    }
  }

  /// Gives a command on one host, and waits until all follow it and none waits.
  private func command(_ mode: BreakerMode, of name: String, on host: TestHost) async throws {
    try host.breaker(name).force(mode, scope: .fleet)
    for host in hosts {
      try await eventually("\(name) is \(mode) on \(host.options.host)") {
        try host.snapshot(name)?.mode == mode
      }
    }
    try await eventually("nothing waits") { try host.store.fleetStanding()?.waiting == 0 }
  }

  /// The data of the fleet on a server, without what each beat changes.
  private func contents(of server: RedisServer) throws -> [String] {
    let keys = FleetKeys(fleet: "test")
    return [
      try server.command("GET", keys.count), try server.command("GET", keys.epoch),
      try server.command("XLEN", keys.stream), try server.command("HLEN", keys.commands),
      try server.command("HGETALL", keys.evidence),
    ]
  }

  /// The whole history of a breaker on a host.
  private func kinds(of name: String, on host: TestHost) throws -> [String] {
    try host.store.history(of: name).map(\.change.wireKind)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a replica that replaces its primary has everything that was told`()
    async throws
  {
    let (a, b) = (hosts[0], hosts[1])
    try await command(.observe, of: "pay", on: a)
    try await command(.forcedOpen, of: "mail", on: b)
    _ = try b.breaker("db", sharedPolicy)
    try a.breaker("db", sharedPolicy).trip()
    let keys = FleetKeys(fleet: "test")
    try await eventually("a has told that it is open") {
      try primary.command("HKEYS", keys.evidence) == "db\na"
    }
    try await eventually("the replica has all") {
      try replica.command("INFO", "replication").contains("master_link_status:up")
        && contents(of: replica) == contents(of: primary)
    }
    let told = try contents(of: replica)
    let counts = hosts.map { $0.count(.connected) }

    primary.kill()
    try replica.command("REPLICAOF", "NO", "ONE")
    for host in hosts { try await host.awaits(.problem) }
    #expect(try contents(of: replica) == told)
    let next = directory.file("next.sock")
    try Files.link(next, to: replica.socket)
    try Files.rename(next, to: way)
    for (host, count) in zip(hosts, counts) { try await host.awaits(.connected, times: count + 1) }

    for host in hosts {
      #expect(try host.snapshot("pay")?.mode == .observe)
      #expect(try host.snapshot("mail")?.mode == .forcedOpen)
    }
    try await command(.forcedClosed, of: "pay", on: a)
    try await command(.automatic, of: "mail", on: b)
    for host in hosts {
      #expect(try kinds(of: "pay", on: host) == ["mode", "mode"])
      #expect(try kinds(of: "mail", on: host) == ["mode", "mode"])
      #expect(!host.log.contains { $0.contains("lost its data") })
    }
    #expect(try a.store.history(of: "db").count == 1)
    #expect(try a.snapshot("db")?.state == .open)
    #expect(try b.store.history(of: "db").isEmpty)
    #expect(try b.snapshot("db")?.state == .closed)
    #expect(try replica.command("HKEYS", keys.evidence) == "db\na")
  }
}
