import BreakerRelay
import SharedBreaker
import TestSupport
import Testing

/// A fleet whose server fails.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct ServerFaultTests {
  private let fleet: TestFleet
  private let a: TestHost
  private let b: TestHost

  init() async throws {
    fleet = try TestFleet()
    a = try await fleet.host("a")
    b = try await fleet.host("b")
  }

  private var hosts: [TestHost] { [a, b] }

  /// Gives a command on one host, and waits until the other one follows it.
  private func exchange(_ mode: BreakerMode, from: TestHost, to: TestHost) async throws {
    try from.breaker("pay").force(mode, scope: .fleet)
    try await eventually("\(to.options.host) is \(mode)") { try to.snapshot("pay")?.mode == mode }
    try await eventually("nothing waits") { try from.store.fleetStanding()?.waiting == 0 }
  }

  /// Waits until both hosts have connected more often than this.
  private func awaitConnections(after counts: [Int]) async throws {
    for (host, count) in zip(hosts, counts) { try await host.awaits(.connected, times: count + 1) }
  }

  private var connections: [Int] { hosts.map { $0.count(.connected) } }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `hosts catch up with a server that was restarted`(keepsData: Bool) async throws {
    try await exchange(.observe, from: a, to: b)
    let counts = connections
    if keepsData { try fleet.server.command("SAVE") }
    fleet.server.kill()
    for host in hosts { try await host.awaits(.problem) }
    try b.breaker("mail").force(.forcedOpen, scope: .fleet)
    try fleet.server.start()
    try await awaitConnections(after: counts)
    try await eventually("a is forced open") { try a.snapshot("mail")?.mode == .forcedOpen }
    #expect(try fleet.server.command("HLEN", "sb:{test}:commands") == "2")
    try await exchange(.forcedClosed, from: a, to: b)
    for host in hosts {
      #expect(try host.store.history(of: "pay").count { $0.change.wireKind == "mode" } == 2)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that is stopped changes no state, and passes on commands later`()
    async throws
  {
    try await exchange(.observe, from: a, to: b)
    try a.breaker("db", sharedPolicy).trip()
    _ = try b.breaker("db", sharedPolicy)
    try await eventually("a has told that it is open") {
      try fleet.server.command("HKEYS", "sb:{test}:evidence") == "db\na"
    }
    let counts = connections
    fleet.server.stop()
    // The relays do not know yet that the server does not answer; later they do.
    try a.breaker("early.a").force(.forcedOpen, scope: .fleet)
    try b.breaker("early.b").force(.forcedOpen, scope: .fleet)
    for host in hosts { try await host.awaits(.problem) }
    #expect(a.log.contains { $0.contains("it has not answered for 3s") })
    try a.breaker("late.a").force(.forcedOpen, scope: .fleet)
    try b.breaker("late.b").force(.forcedOpen, scope: .fleet)
    try a.breaker("pay").overridePolicy(set: [.openFor: "7m"], scope: .fleet)
    #expect(try a.store.fleetStanding()?.waiting == 3)
    #expect(try b.store.fleetStanding()?.waiting == 2)
    fleet.server.resume()
    try await awaitConnections(after: counts)
    let names = ["early.a", "early.b", "late.a", "late.b"]
    for host in hosts {
      for name in names {
        try await eventually("\(name) is forced open on \(host.options.host)") {
          try host.snapshot(name)?.mode == .forcedOpen
        }
      }
      try await eventually("\(host.options.host) follows the policy") {
        try host.snapshot("pay")?.policy.openFor == .seconds(420)
      }
      try await eventually("nothing waits") { try host.store.fleetStanding()?.waiting == 0 }
    }
    for host in hosts {
      for name in names { #expect(try host.store.history(of: name).count == 1) }
    }
    #expect(try a.store.history(of: "db").count == 1)
    #expect(try a.snapshot("db")?.state == .open)
    #expect(try b.store.history(of: "db").isEmpty)
    #expect(try b.snapshot("db")?.state == .closed)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that loses its data gets it back from the hosts`() async throws {
    try await exchange(.observe, from: a, to: b)
    try fleet.server.command("FLUSHALL")
    for host in hosts { try await host.awaits(.catchingUp) }
    try await eventually("the command is back") {
      try fleet.server.command("HLEN", "sb:{test}:commands") == "1"
    }
    try await exchange(.forcedOpen, from: b, to: a)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server whose memory is full is retried until it has room`() async throws {
    try await exchange(.observe, from: a, to: b)
    try fleet.server.command("CONFIG", "SET", "maxmemory", "1")
    for host in hosts { try await host.awaits(.problem) }
    #expect(a.log.contains { $0.contains("its memory is full: raise its maxmemory") })
    try a.breaker("pay").force(.forcedOpen, scope: .fleet)
    let counts = connections
    #expect(try a.store.fleetStanding()?.waiting == 1)
    try fleet.server.command("CONFIG", "SET", "maxmemory", "0")
    try await awaitConnections(after: counts)
    try await eventually("b is forced open") { try b.snapshot("pay")?.mode == .forcedOpen }
    try await eventually("nothing waits") { try a.store.fleetStanding()?.waiting == 0 }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that becomes a replica is retried until it can be written`() async throws {
    try await exchange(.observe, from: a, to: b)
    try fleet.server.command("REPLICAOF", "127.0.0.1", "1")
    for host in hosts { try await host.awaits(.problem) }
    try await eventually("a says so") {
      a.log.contains { $0.contains("it is a read-only replica") }
    }
    let counts = connections
    try a.breaker("pay").force(.forcedOpen, scope: .fleet)
    try fleet.server.command("REPLICAOF", "NO", "ONE")
    try await awaitConnections(after: counts)
    try await eventually("b is forced open") { try b.snapshot("pay")?.mode == .forcedOpen }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host that was away reads what is no longer in the stream`() async throws {
    b.stop()
    let payments = try a.breaker("pay")
    try payments.force(.forcedOpen, scope: .fleet)
    try payments.overridePolicy(set: [.openFor: "7m"], scope: .fleet)
    try payments.force(.observe, reason: "the last one", scope: .fleet)
    try await eventually("nothing waits") { try a.store.fleetStanding()?.waiting == 0 }
    try fleet.server.command("XTRIM", "sb:{test}:stream", "MAXLEN", "0")
    b.start()
    try await eventually("b observes") { try b.snapshot("pay")?.modeReason == "the last one" }
    #expect(try b.snapshot("pay")?.policy.openFor == .seconds(420))
    #expect(try b.store.history(of: "pay").count { $0.change.wireKind == "mode" } == 1)
  }

  /// Publishes a command as another host would, some numbers further on, in one step.
  private func forge(_ mode: BreakerMode, after step: Int = 1, entry: String = "*") throws {
    let script = """
      local n = redis.call('INCRBY', KEYS[2], ARGV[1])
      redis.call('XADD', KEYS[1], ARGV[2], 'v', '1', 'n', n, 'k', 'command', 'h', 'z', 'l', '1',
        'b', 'pay', 's', n, 'c', ARGV[3])
      redis.call('HSET', KEYS[3], 'pay\\nmode', n .. ' z 5 ' .. ARGV[3])
      """
    let command = #"{"action":"force","mode":"\#(mode.wireName)","by":"x"}"#
    try fleet.server.command(
      "EVAL", script, "3", "sb:{test}:stream", "sb:{test}:count", "sb:{test}:commands",
      String(step), entry, command)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a message that is missing makes a host read everything again`() async throws {
    try forge(.forcedOpen, after: 2)
    for host in hosts {
      try await host.awaits(.catchingUp)
      #expect(host.log.contains { $0.contains("the message after 0 is 2") })
      try await eventually("\(host.options.host) is forced open") {
        try host.snapshot("pay")?.mode == .forcedOpen
      }
    }
    try await exchange(.observe, from: b, to: a)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a message that does not arrive makes a host read everything again`() async throws {
    try fleet.server.command("INCR", "sb:{test}:count")
    for host in hosts {
      try await host.awaits(.catchingUp)
      #expect(host.log.contains { $0.contains("message 1 has not arrived") })
    }
    try await exchange(.observe, from: a, to: b)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a server that has gone back makes a host read everything again`() async throws {
    try await exchange(.observe, from: a, to: b)
    try fleet.server.command("SET", "sb:{test}:count", "0")
    for host in hosts {
      try await host.awaits(.catchingUp)
      #expect(host.log.contains { $0.contains("the server has gone back to message 0") })
    }
    try await exchange(.forcedOpen, from: b, to: a)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host that has heard everything is up to date, however late the last message was`()
    async throws
  {
    try forge(.observe, entry: "1000-1")
    for host in hosts {
      try await eventually("\(host.options.host) observes") {
        try host.snapshot("pay")?.mode == .observe
      }
      try await eventually("\(host.options.host) is up to date") {
        try StatusClient.ask("figures", of: host).contains(#""lag_ms":0,"#)
      }
    }
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: RedisServer.hasUsers, "the server has no users"))
  func `a server that does not let a relay read its stream is reported once`() async throws {
    let directory = try TemporaryDirectory()
    let server = try RedisServer(in: directory)
    try server.command("ACL", "SETUSER", "default", "-xread")
    let host = try TestHost("a", as: "a", in: directory, address: server.address)
    host.start()
    try await host.awaits(.problem)
    try server.command("ACL", "SETUSER", "default", "+xread")
    try await host.awaits(.connected)
    #expect(host.count(.problem) == 1)
    #expect(host.count(.connected) == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command that a later one has overtaken is reported`() async throws {
    try await exchange(.observe, from: a, to: b)
    a.stop()
    try a.give { try $0.breaker("pay").force(.forcedOpen, scope: .fleet) }
    try await exchange(.forcedClosed, from: b, to: b)
    a.start()
    try await a.awaits(.overtaken)
    #expect(a.log.contains { $0.contains("a later one from host b applies") })
    #expect(try a.snapshot("pay")?.mode == .forcedClosed)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command of a later version is not replaced by an earlier command`() async throws {
    let later = StoreClock.system.wallTime.millisecondsSince1970 + 3_600_000
    let text = #"\#(later) z 5 {"action":"dance","by":"x"}"#
    try fleet.server.command("HSET", "sb:{test}:commands", "later\nmode", text)
    try a.breaker("later").force(.observe, scope: .fleet)
    try await eventually("a says which command applies") {
      try a.store.fleetStanding()?.refusal?.contains("a later one from host z applies") == true
    }
    #expect(try fleet.server.command("HGET", "sb:{test}:commands", "later\nmode") == text)
  }

  @Test
  func `the server replaces what a relay has judged, and nothing that came since`() throws {
    let directory = try TemporaryDirectory()
    let server = try RedisServer(in: directory)
    let keys = FleetKeys(fleet: "test")
    func tell(_ text: String, inPlaceOf digest: String) throws -> [String] {
      try server.command(
        "EVAL", FleetScripts.command, "3", keys.stream, keys.count, keys.commands, "1000", "a",
        "abc", "pay", "1", "all", "mode", text, digest
      ).split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }
    func kept() throws -> String { try server.command("HGET", keys.commands, "pay\nmode") }
    #expect(try tell("one", inPlaceOf: "").joined() == "")
    // The SHA-1 digest of what is there.
    let digest = "fe05bcdcdc4928012781a5f1a2a77cbb5398e106"
    for other in ["", "0", digest.uppercased()] {
      #expect(try tell("two", inPlaceOf: other) == [digest, "one"])
    }
    #expect(try kept() == "one" && server.command("XLEN", keys.stream) == "1")
    #expect(try tell("two", inPlaceOf: digest).joined() == "")
    #expect(try kept() == "two" && server.command("XLEN", keys.stream) == "2")
  }
}
