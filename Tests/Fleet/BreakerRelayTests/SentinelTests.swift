import BreakerRelay
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Real sentinels, and relays that follow them.
@Suite(
  .enabled(if: RedisServer.isInstalled, "redis-server is not installed"),
  .enabled(if: RedisServer.hasUsers, "the sentinels of this server take no password"))
struct SentinelTests {
  private let directory: TemporaryDirectory

  init() throws {
    signal(SIGPIPE, SIG_IGN)
    directory = try TemporaryDirectory()
  }

  private func connect(_ address: RedisAddress) throws -> RedisConnection {
    try RedisConnection.primary(of: address, patience: .seconds(60))
  }

  private func error(_ address: RedisAddress) -> String {
    #expect(throws: RedisError.self) { try connect(address) }?.description ?? ""
  }

  private func check(_ address: RedisAddress) -> [String] {
    RelayCheck(
      RelayOptions(address: address, fleet: "f", host: "a", store: directory.store)
    ).lines
  }

  @Test(.timeLimit(.minutes(60)))
  func `relays follow a failover, and no command is lost`() async throws {
    let stage = try SentinelStage(in: directory)
    let hosts = try ["a", "b"].map { try stage.host($0) }
    for host in hosts {
      host.start()
      try await host.awaits(.connected)
      #expect(
        host.log.contains { $0.contains(", which name redis://127.0.0.1:\(stage.ports[0]): the") })
    }
    try hosts[0].breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("b is forced open") {
      try hosts[1].snapshot("pay")?.mode == .forcedOpen
    }
    try await stage.isReady()
    stage.servers[0].kill()
    for host in hosts {
      try await eventually("\(host.options.host) uses the new primary: \(host.log)") {
        host.log.contains { $0.contains(", which name redis://127.0.0.1:\(stage.ports[1]): the") }
      }
    }
    try hosts[1].breaker("pay").force(.observe, scope: .fleet)
    try await eventually("a observes") { try hosts[0].snapshot("pay")?.mode == .observe }
    for host in hosts {
      #expect(try host.store.history(of: "pay").count == 2)
      host.stop()
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a primary that is frozen is left, and so is one that most sentinels do not name`()
    async throws
  {
    // Each of the servers is a primary, so the connection to neither of them fails.
    let stage = try SentinelStage(in: directory)
    let host = try stage.host("a")
    host.start()
    try await host.awaits(.connected)
    try stage.servers[1].command("REPLICAOF", "NO", "ONE")
    for sentinel in stage.sentinels { try stage.ask(sentinel, "SENTINEL", "REMOVE", "main") }
    try stage.ask(
      stage.sentinels[0], "SENTINEL", "MONITOR", "main", "127.0.0.1", "\(stage.ports[0])", "9")
    for sentinel in stage.sentinels.dropFirst() {
      try stage.ask(sentinel, "SENTINEL", "MONITOR", "main", "127.0.0.1", "\(stage.ports[1])", "9")
    }
    // The first sentinel is asked first, and still names the other one.
    let words = ", which name redis://127.0.0.1:\(stage.ports[1]): the"
    try await eventually("it uses what most of them name: \(host.log)") {
      host.log.contains { $0.contains(words) }
    }
    #expect(host.log.contains { $0.contains("its sentinels name another primary now") })
    let sentinel = try stage.ask(stage.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
    #expect(sentinel.hasSuffix("\n\(stage.ports[0])"))
    host.stop()
  }

  @Test(.timeLimit(.minutes(60)))
  func `no server that one sentinel names alone gets the password first`() async throws {
    let stage = try SentinelStage(in: directory)
    try stage.servers[1].command("REPLICAOF", "NO", "ONE")
    for sentinel in stage.sentinels { try stage.ask(sentinel, "SENTINEL", "REMOVE", "main") }
    for (place, sentinel) in stage.sentinels.enumerated() {
      let port = stage.ports[place == 0 ? 1 : 0]
      try stage.ask(sentinel, "SENTINEL", "MONITOR", "main", "127.0.0.1", "\(port)", "9")
    }
    let start = ContinuousClock.now
    let connection = try connect(stage.address)
    #expect(connection.address == stage.address(of: 0))
    #expect(.now - start < .seconds(30))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a relay stays connected without sentinels, and says that it would miss a failover`()
    async throws
  {
    let stage = try SentinelStage(in: directory, sentinels: 1)
    let host = try stage.host("a")
    host.start()
    try await host.awaits(.connected)
    stage.sentinels[0].kill()
    try await eventually("it says so") {
      host.log.contains { $0.contains("answers, so a failover could stay unnoticed: the sentinel") }
    }
    try stage.sentinels[0].start()
    try await eventually("it says that they are back") {
      host.log.contains { $0.contains("answer again") }
    }
    #expect(host.count(.connected) == 1)
    #expect(try host.store.fleetStanding()?.isConnected == true)
    host.stop()
  }

  @Test(.timeLimit(.minutes(60)))
  func `sentinels and servers have passwords of their own, and a check names what fails`() throws {
    let stage = try SentinelStage(in: directory, passwords: ("watchword", "geheim"))
    let good = stage.address
    #expect(try connect(good).address == stage.address(of: 0))
    let lines = check(good)
    #expect(
      stage.members.allSatisfy { member in
        lines.contains("ok: the sentinel \(member) names 127.0.0.1:\(stage.ports[0])")
      }, "\(lines)")
    #expect(lines.contains { $0.hasPrefix("ok: ") && $0.contains(" at redis://127.0.0.1:") })

    var sentinels = Sentinels(stage.members, name: "main")
    var address = good
    address.place = .sentinels(sentinels)
    #expect(
      error(address).hasSuffix(
        "it wants a password: use --sentinel-password-file or"
          + " $SHARED_BREAKER_REDIS_SENTINEL_PASSWORD"))
    sentinels.password = "geheim"
    address.place = .sentinels(sentinels)
    #expect(error(address).hasSuffix("it refuses the user or the password: check them"))
    address = good
    address.password = "watchword"
    #expect(error(address).hasPrefix("the sentinels name 127.0.0.1:\(stage.ports[0]): it refuses"))
    sentinels.password = "watchword"
    sentinels.name = "other"
    address.place = .sentinels(sentinels)
    #expect(error(address).hasSuffix("'other': use the name that 'sentinel monitor' gives it"))

    // The rights that the guide names.
    for sentinel in stage.sentinels {
      try stage.ask(
        sentinel, "ACL", "SETUSER", "relay", "on", ">slogan",
        "+sentinel|get-master-addr-by-name", "+client|setname")
    }
    (sentinels.name, sentinels.user, sentinels.password) = ("main", "relay", "slogan")
    address = good
    address.place = .sentinels(sentinels)
    #expect(try connect(address).address == stage.address(of: 0))

    stage.sentinels[0].kill()
    #expect(try connect(good).address == stage.address(of: 0))
    let rest = check(good)
    #expect(rest.contains { $0.hasPrefix("warning: the sentinel \(stage.members[0]): ") })
    #expect(rest.allSatisfy { !$0.hasPrefix("problem: ") }, "\(rest)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server instead of a sentinel, or the reverse, is refused with what to do`() throws {
    let stage = try SentinelStage(in: directory, sentinels: 1)
    var address = stage.address
    let server = Sentinels.Member(host: "127.0.0.1", port: stage.ports[0])
    address.place = .sentinels(Sentinels([server], name: "main"))
    #expect(
      error(address).hasSuffix("it is no sentinel: use its port, 26379 if nobody has changed it"))
    let sentinel = stage.members[0]
    let direct = RedisAddress(.tcp(host: sentinel.host, port: sentinel.port))
    #expect(
      check(direct).contains { $0.hasSuffix("it is a sentinel: use sentinel://HOST:PORT/NAME") },
      "\(check(direct))")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a replica is refused, even one that permits writes`() async throws {
    let stage = try SentinelStage(in: directory, sentinels: 1)
    try stage.servers[1].command("CONFIG", "SET", "replica-read-only", "no")
    let words = "it is a read-only replica: give --redis the address of the primary"
    let lines = check(stage.address(of: 1))
    #expect(lines.contains { $0.hasSuffix(words) }, "\(lines)")
    let host = try TestHost("a", as: "a", in: directory, server: stage.address(of: 1))
    host.start()
    try await eventually("it says so") { host.log.contains { $0.contains(words) } }
    host.stop()
    // A sentinel that has not heard of a failover names what is a replica now.
    try stage.ask(stage.sentinels[0], "SENTINEL", "REMOVE", "main")
    try stage.ask(
      stage.sentinels[0], "SENTINEL", "MONITOR", "main", "127.0.0.1", "\(stage.ports[1])", "9")
    #expect(
      error(stage.address)
        == "the sentinels name 127.0.0.1:\(stage.ports[1]): it is a replica: a failover may be under"
        + " way")
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: RedisServer.hasTLS, "the server has no TLS"),
    .enabled(if: Certificates.arePossible, "openssl is not installed"))
  func `with TLS, sentinels and servers have to prove their addresses`() async throws {
    let certificates = try Certificates(in: directory)
    func start(_ pair: Certificates.Pair, in room: TemporaryDirectory) throws -> SentinelStage {
      try SentinelStage(in: room, passwords: ("watchword", "geheim"), tls: certificates.trust()) {
        [
          "--tls-port", $0, "--tls-cert-file", pair.certificate, "--tls-key-file", pair.key,
          "--tls-ca-cert-file", certificates.file, "--tls-auth-clients", "no",
          "--tls-replication", "yes",
        ]
      }
    }
    let stage = try start(try certificates.pair("server"), in: directory)
    #expect(try connect(stage.address).encryption?.hasPrefix("TLSv1.3") == true)
    let host = try stage.host("a")
    host.start()
    try await host.awaits(.connected)
    try await stage.isReady()
    stage.servers[0].kill()
    try await eventually("it uses the new primary: \(host.log)") {
      host.log.contains { $0.contains("which name rediss://127.0.0.1:\(stage.ports[1]): the") }
    }
    host.stop()

    let strange = try start(
      try certificates.pair("named", for: "DNS:localhost"), in: try TemporaryDirectory())
    #expect(error(strange.address).contains("its certificate is not for '127.0.0.1'"))
    for sentinel in strange.sentinels {
      #expect(!(try strange.ask(sentinel, "INFO", "commandstats").contains("cmdstat_client")))
    }
  }

  @Test func `the primary that more sentinels name is better`() {
    func better(_ named: UInt16...) -> UInt16? {
      Sentinels.better(
        than: Sentinels.Member(host: "h", port: 1),
        named.map { Sentinels.Member(host: "h", port: $0) })?.port
    }
    #expect(better() == nil)
    #expect(better(1, 1, 1) == nil)
    #expect(better(2, 1, 1) == nil)
    #expect(better(2, 1) == nil)
    #expect(better(2, 3, 1) == nil)
    #expect(better(2, 2, 1) == 2)
    #expect(better(2) == 2)
    // Of several that are as good, all hosts choose the same.
    #expect(better(3, 2) == 2)
    #expect(better(2, 3) == 2)
  }
}

/// Servers that cannot be used, although they are reached.
@Suite(
  .enabled(if: RedisServer.isInstalled, "redis-server is not installed"),
  .enabled(if: RedisServer.hasUsers, "the server knows no ports of clusters"))
struct UnusableServerTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func check(_ server: RedisServer) -> [String] {
    RelayCheck(
      RelayOptions(
        address: RedisAddress(.socket(path: server.socket)), fleet: "f", host: "a",
        store: directory.store)
    ).lines
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["EVALSHA", "XADD", "ZREMRANGEBYSCORE", "ROLE"])
  func `a renamed command is named`(command: String) throws {
    let server = try RedisServer(in: directory, options: ["--rename-command", command, "other"])
    defer { server.kill() }
    let lines = check(server)
    #expect(
      lines.last?.hasSuffix(
        "it does not know \(command): use Redis from version 5 on, or Valkey, without renamed"
          + " commands") == true, "\(lines)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a relay says which command its server has renamed`() async throws {
    let server = try RedisServer(in: directory, options: ["--rename-command", "ZADD", ""])
    defer { server.kill() }
    let host = try TestHost("a", as: "a", in: directory, address: server.address)
    host.start()
    try await eventually("it says so") {
      host.log.contains { $0.contains("it does not know a command of the relay's scripts: use") }
    }
    host.stop()
  }

  @Test(.timeLimit(.minutes(60)))
  func `a node of a cluster that does not have the fleet's keys is refused`() async throws {
    func node(_ name: String) throws -> (server: RedisServer, port: String) {
      try RedisServer.atPort(in: directory, name: "\(name).sock") {
        [
          "--port", $0, "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-config-file",
          "\(name).nodes", "--cluster-require-full-coverage", "no",
        ]
      }
    }
    let (one, _) = try node("one")
    defer { one.kill() }
    #expect(check(one).last?.hasSuffix(": its cluster is down") == true, "\(check(one))")
    let (two, port) = try node("two")
    defer { two.kill() }
    try two.command("CLUSTER", "ADDSLOTS", try two.command("CLUSTER", "KEYSLOT", "sb:{f}:count"))
    try one.command("CLUSTER", "MEET", "127.0.0.1", port)
    try await eventually("they have met") {
      try one.command("GET", "sb:{f}:count").contains("MOVED")
    }
    #expect(
      check(one).last?.hasSuffix(
        "it is one of a cluster, and another node has the fleet's keys: use that node") == true,
      "\(check(one))")
  }
}
