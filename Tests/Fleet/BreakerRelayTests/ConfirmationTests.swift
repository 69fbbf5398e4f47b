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
  func `a host whose relay does not run, or is of an earlier version, confirms nothing`()
    async throws
  {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b", "c")
    hosts[1].stop()
    // As an earlier relay describes its host.
    try fleet.server.command("ZADD", "sb:{test}:hosts", "900000000000000", "old")
    try fleet.server.command(
      "HSET", "sb:{test}:host:old", "",
      #"{"version":1,"run":"1","lineage":"2","relay":"0.9.0","since":"2026-01-01T00:00:00.000Z"}"#)
    // A host that has died without a word, long ago.
    try fleet.server.command("ZADD", "sb:{test}:hosts", "1", "dead")
    try hosts[0].breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("c has confirmed it") {
      try standings(of: "pay", by: hosts[0])["c"] == .confirmed
    }
    let others = try standings(of: "pay", by: hosts[0])
    #expect(others["old"] == .mute)
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
      let text = try fleet.server.command("HGET", "sb:{test}:host:b", "\nrefused")
      return RefusedCommands(text).why("pay", stamp: 7, host: "z") != nil && !text.isEmpty
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
    let server = try RedisConnection(to: hosts[0].options.address, patience: .seconds(60))
    let answer = try server.ask([
      "EVAL", FleetScripts.command, "3", "sb:{test}:stream", "sb:{test}:count",
      "sb:{test}:commands", "1000", "a", "1", "pay", String(ahead), "{}", "0", String(ahead), "",
      "", "mode", "{}", "",
    ])
    #expect(answer.text == "!")
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
      _ = try connection.ask([
        "EVAL", FleetScripts.beat, "5", "c", "e", "hosts", "host:\(host)", "s", host, "{}", "1",
        "2", "15000", "f", "0", String(time),
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

  @Test func `a host is not said to have read what the server does not have`() async throws {
    let fleet = try TestFleet()
    let connection = try RedisConnection(
      to: try RedisAddress(fleet.server.address), patience: .seconds(60))
    let (plain, whole) = (#"{"run":"2","lineage":"1"}"#, #"{"run":"2","lineage":"1","read":1}"#)
    func isConfirmed(after words: [String]) throws -> Bool {
      let time = "9000000000000"
      _ = try connection.ask(
        ["EVAL", FleetScripts.beat, "5", "c", "e", "hosts", "host:h", "s", "h", plain, "1", "2"]
          + ["15000", "first", "0", time] + words + [whole])
      let text = try connection.ask(["HGET", "host:h", ""]).text
      #expect(text == plain || text == whole)
      return text == whole
    }
    #expect(try !isConfirmed(after: ["other", "0", "0-0"]))
    #expect(try isConfirmed(after: ["first", "0", "0-0"]))
    _ = try connection.ask(["XADD", "s", "7-1", "v", "1", "n", "4"])
    _ = try connection.ask(["SET", "c", "4"])
    #expect(try isConfirmed(after: ["first", "4", "7-1"]))
    // A failover has put another message in its place.
    #expect(try !isConfirmed(after: ["first", "5", "7-1"]))
    #expect(try !isConfirmed(after: ["first", "4", "6-9"]))
    #expect(try !isConfirmed(after: ["first", "4", "0-0"]))
    #expect(try !isConfirmed(after: ["second", "4", "7-1"]))
  }
}

/// The texts in which hosts tell of themselves.
struct HostTextTests {
  private let position = FleetPosition(epoch: "e\"", number: 7, entry: "7-0")

  @Test func `a description is read back`() throws {
    let since = BreakerTimestamp(millisecondsSince1970: 0)
    let text = HostText(lineage: "00ff", run: "1", since: since, skew: -70_000, position: position)
    let read = try #require(HostDescription(text.text))
    #expect(read.lineage == "00ff" && read.skew == -70_000 && read.confirms)
    #expect(read.hasRead(7, of: "e\"") && !read.hasRead(8, of: "e\""))
    #expect(!read.hasRead(7, of: "f"))
    let plain = try #require(HostDescription(text.plain))
    #expect(plain.confirms && !plain.hasRead(0, of: "e\""))
    #expect(plain.lineage == "00ff")
  }

  @Test(arguments: ["", "[]", "{", String(repeating: " ", count: 2_000)])
  func `a text that makes no sense is no description`(text: String) {
    #expect(HostDescription(text) == nil)
  }

  @Test func `an earlier relay does not confirm`() throws {
    let read = try #require(HostDescription(#"{"version":1,"run":"1","lineage":"2","read":9}"#))
    #expect(!read.confirms && !read.hasRead(0, of: ""))
  }

  @Test func `refusals are read back, and none is lost without a word`() {
    let one = RefusedCommand(name: "pay", stamp: 7, host: "a", "no")
    let list = RefusedCommands([one])
    let read = list.text.map { RefusedCommands($0) }
    #expect(read == list)
    #expect(read?.why("pay", stamp: 7, host: "a") == "no")
    #expect(read?.why("pay", stamp: 8, host: "a") == nil)
    #expect(RefusedCommands([]).text == nil)
    let many = RefusedCommands(
      (1...200).map { RefusedCommand(name: "b\($0)", stamp: 1, host: "a", "no") })
    #expect(many.commands.count == RefusedCommands.room)
    #expect(many.text.map { RefusedCommands($0) }?.why("other", stamp: 1, host: "a") != nil)
    for odd in ["", "{}x", #"{"commands":[{}],"more":false}"#] {
      #expect(RefusedCommands(odd).why("pay", stamp: 7, host: "a") != nil)
    }
  }
}
