import BreakerRelay
import Glibc
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Which hosts have carried out a command, as relays tell it over a real server.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct ConfirmationTests {
  private func known(_ name: String, by host: TestHost) throws -> [FleetConfirmations.Command] {
    let text = try StatusClient.ask("confirmations \(name)", of: host)
    return try FleetConfirmations(document: text).commands
  }

  /// The standing of each host, as far as this host knows it.
  private func standings(
    of name: String, by host: TestHost
  ) throws -> [String: FleetConfirmations.Standing] {
    let command = try known(name, by: host).first
    return Dictionary(
      uniqueKeysWithValues: (command?.hosts ?? []).map { ($0.name, $0.standing) })
  }

  @Test(.timeLimit(.minutes(60)))
  func `every host learns which hosts have carried out a command`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b", "c")
    try hosts[0].breaker("pay").force(.forcedOpen, reason: "drill", scope: .fleet)
    for host in hosts {
      try await eventually("\(host.options.host) knows that all have done it") {
        try standings(of: "pay", by: host)
          == ["a": .confirmed, "b": .confirmed, "c": .confirmed]
      }
    }
    let command = try #require(try known("pay", by: hosts[2]).first)
    #expect(command.aspect == "mode" && command.host == "a" && command.reason == "drill")
    #expect(command.isTold && command.winner == nil && command.refusal == nil)
    #expect(try known("none", by: hosts[0]).isEmpty)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host whose relay does not run, or says nothing that makes sense, confirms nothing`()
    async throws
  {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b", "c")
    hosts[1].stop()
    // Another program's words say nothing.
    try fleet.server.command("ZADD", "sb:{test}:hosts", "900000000000000", "old")
    try fleet.server.command("HSET", "sb:{test}:host:old", "", #"{"confirms":true,"read":999}"#)
    // A host that has died without a word, long ago.
    try fleet.server.command("ZADD", "sb:{test}:hosts", "1", "dead")
    try hosts[0].breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("c has confirmed it") {
      try standings(of: "pay", by: hosts[0])["c"] == .confirmed
    }
    let others = try standings(of: "pay", by: hosts[0])
    #expect(others["old"] == .pending)
    // A relay that ends in order takes its host away; a host that comes back confirms.
    #expect(others["b"] == nil)
    hosts[1].start()
    try await eventually("b has confirmed it") {
      try standings(of: "pay", by: hosts[0])["b"] == .confirmed
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host that cannot carry a command out says so, and is not counted`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    // The value fits on host a, and not on b, whose breaker stays open for longer than that.
    _ = try hosts[1].breaker("pay", BreakerPolicy(openFor: .seconds(3_600)))
    try hosts[0].breaker("pay").overridePolicy(set: [.openMax: "60s"], scope: .fleet)
    try await eventually("b has said that it does not") {
      try standings(of: "pay", by: hosts[0])["b"] == .refused
    }
    let host = try known("pay", by: hosts[0]).first?.hosts.first { $0.name == "b" }
    #expect(host?.why == "it does not fit the policy of this host")
    // An operator of b makes room for it.
    try hosts[1].breaker("pay").overridePolicy(set: [.openFor: "1s"])
    try hosts[0].breaker("pay").overridePolicy(set: [.openMax: "50s"], scope: .fleet)
    try await eventually("b follows it") {
      try standings(of: "pay", by: hosts[0])["b"] == .confirmed
    }
    #expect(try hosts[1].snapshot("pay")?.policy.openMax == .seconds(50))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command that the relay cannot read is refused by name`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    // As a later relay would tell it for host a, with an action that does not exist yet.
    let script = """
      local n = redis.call('INCR', KEYS[2])
      redis.call('XADD', KEYS[1], '*', 'v', '1', 'n', n, 'k', 'command', 'h', 'z', 'l', '1',
        'b', 'pay', 's', '7', 'c', '{"action":"dance","by":"x"}')
      """
    let connection = try RedisConnection(to: hosts[0].options.address, patience: .seconds(60))
    _ = try connection.ask(["EVAL", script, "2", "sb:{test}:stream", "sb:{test}:count"])
    try await eventually("b has told that it refuses it") {
      let text = try fleet.server.command("HGET", "sb:{test}:host:b", "")
      let mark = try HostMark(text, of: "b", believing: FleetAuthority(fleet: "test"))
      return mark.refused.contains { $0.name == "pay" && $0.stamp == 7 && $0.host == "z" }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command ahead of the server's clock waits with the reason, and can be withdrawn`()
    async throws
  {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    hosts[0].stop()
    let ahead = StoreClock.system.wallTime.millisecondsSince1970 + 31_536_000_000
    _ = try Database.rows(hosts[0].options.store ?? "", "UPDATE fleet SET stamp = \(ahead)")
    let claim = try #require(try hosts[0].store.claimRelay(fleet: "test", host: "a"))
    try hosts[0].store.breaker("pay").force(.observe, scope: .fleet)
    try claim.published([], refusing: [try claim.pendingCommands()[0].id: "the clock"])
    claim.release()
    #expect(try hosts[0].store.fleetStanding()?.refusal == "the clock")
    #expect(try hosts[0].store.withdrawCommands(to: "pay").count == 1)
    hosts[0].start()
    try await hosts[0].awaits(.connected, times: 2)
    #expect(try hosts[1].snapshot("pay") == nil)
    #expect(try hosts[0].store.fleetCommands(to: "pay").isEmpty)
  }

  @Test(.timeLimit(.minutes(60)))
  func `after a withdrawal the host follows the fleet again`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    try hosts[1].breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("a is forced open") { try hosts[0].snapshot("pay")?.mode == .forcedOpen }
    fleet.server.stop()
    try await eventually("a has lost the server") {
      try hosts[0].store.fleetStanding()?.isConnected == false
    }
    try hosts[0].breaker("pay").force(.automatic, scope: .fleet)
    #expect(try hosts[0].snapshot("pay")?.mode == .automatic)
    #expect(try hosts[0].store.withdrawCommands(to: "pay").count == 1)
    fleet.server.resume()
    // Either the server had got it, and all follow it, or a follows b again.
    try await eventually("both agree") {
      let modes = try hosts.map { try $0.snapshot("pay")?.mode }
      let registers = try hosts.map { host in
        try host.store.fleetCommands(to: "pay").map(\.command.stamp)
      }
      return modes[0] == modes[1] && registers[0] == registers[1] && !registers[0].isEmpty
    }
  }

  @Test func `a beat is as old as its sending`() async throws {
    let fleet = try TestFleet()
    let connection = try RedisConnection(
      to: try RedisAddress(fleet.server.address), patience: .seconds(60))
    let now = try #require(ServerClock.milliseconds(try connection.ask(["TIME"])))
    func seen(sentAt time: Int64, as host: String = "h") throws -> Int64? {
      let own = try connection.ask(["HGET", "host:\(host)", ""])
      let digest = own == .nothing ? "" : "bf21a9e8fbc5a3846fb05b4fa0859e0917b2202f"
      _ = try connection.ask([
        "EVAL", FleetScripts.beat, "4", "c", "e", "hosts", "host:\(host)", host, "{}", digest, "f",
        String(time), "15000",
      ])
      return try connection.ask(["ZSCORE", "hosts", host]).text.flatMap { Int64($0) }
    }
    #expect(try seen(sentAt: now - 90_000) == now - 90_000)
    let later = try #require(try seen(sentAt: now + 3_600_000))
    #expect(later >= now && later < now + 600_000)
    // One that comes late does not make the host older than it is.
    #expect(try seen(sentAt: now - 90_000) == later)
    // A time from a clock that was set is not believed.
    let odd = try #require(try seen(sentAt: 5, as: "odd"))
    #expect(odd >= now)
  }
}

/// The texts in which hosts tell of themselves.
struct HostMarkTests {
  private let none = FleetAuthority(fleet: "test")

  private func command(_ stamp: Int64, to name: String = "pay", on host: String = "a")
    -> FleetCommand
  {
    FleetCommand(name: name, action: .reset, author: "x", host: host, stamp: stamp, age: .zero)
  }

  @Test func `a mark is read back`() throws {
    var mark = HostMark(lineage: "00ff", run: "1", sentAt: 5)
    mark.skew = -70_000
    mark.keys = ["a", "b"]
    var heard = HeardCommands([command(1), command(2, to: "db")])
    mark.heard = heard.told()
    mark.refused = [RefusedCommand(command(7), "no")]
    let read = try HostMark(mark.text, of: "h", believing: none)
    #expect(read == mark)
    #expect(read.why(command(7)) == "no" && read.why(command(8)) == nil)
    #expect(!read.hasLeft && !read.isProven)
    mark.hasLeft = true
    #expect(try HostMark(mark.text, of: "h", believing: none).hasLeft)
  }

  @Test(arguments: ["", "[]", "{", "{}", #"{"lineage":"1","run":"2","sent":-1}"#])
  func `a text that makes no sense is no mark`(text: String) {
    #expect(throws: Refusal.self) { try HostMark(text, of: "h", believing: none) }
    let long = #"{"lineage":"1","run":"2","sent":1,"x":""# + String(repeating: "x", count: 20_000)
    #expect(throws: Refusal.self) { try HostMark(long + "\"}", of: "h", believing: none) }
  }

  @Test func `no mark lists many refused commands, and none that was carried out`() throws {
    var mark = HostMark(lineage: "00ff", run: "1", sentAt: 5)
    mark.refused = (1...200).map { RefusedCommand(command($0), String(repeating: "x", count: 900)) }
    // A relay lists no more than fit, and a reader takes no more.
    mark.refused = Array(mark.refused.prefix(HostMark.roomForRefused))
    let read = try HostMark(mark.text, of: "h", believing: none)
    #expect(read.refused.count == HostMark.roomForRefused)
    #expect(read.why(command(1))?.count == 200)
  }
}
