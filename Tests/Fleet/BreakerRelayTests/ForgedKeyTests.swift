import BreakerRelay
import ProgramKit
import SharedBreaker
import TestSupport
import Testing

/// All that a relay reads on the server, written by an attacker with its password and no key.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct ForgedKeyTests {
  private static let keys = ["11", "22"].compactMap {
    FleetKey(hexadecimal: String(repeating: $0, count: 32))
  }
  private let fleet: TestFleet

  init() throws { fleet = try TestFleet() }

  private func host(
    _ name: String, with change: (inout RelayOptions) -> Void = { _ in }
  ) async throws -> TestHost {
    try await fleet.host(name) {
      $0.keys = [Self.keys[0]]
      change(&$0)
    }
  }

  private static var now: Int64 { StoreClock.system.wallTime.millisecondsSince1970 }

  @discardableResult
  private func command(_ words: String...) throws -> String {
    try fleet.server.command(words: words)
  }

  /// Sets a key or a field to bytes that are not text.
  private func damage(_ words: String, with lua: String) throws {
    let parts = words.split(separator: " ").map(String.init)
    let fields = parts.dropFirst(2).map { "'\($0)'" } + [lua]
    try command(
      "EVAL", "return redis.call('\(parts[0])', KEYS[1], \(fields.joined(separator: ", ")))", "1",
      "sb:{test}:\(parts[1])")
  }

  /// Puts something of another type in the place of a key.
  private func spoil(_ key: String) throws {
    let name = "sb:{test}:\(key)"
    try command("DEL", name)
    if ["count", "epoch"].contains(key) {
      try command("HSET", name, "x", "1")
    } else {
      try command("SET", name, "x")
    }
  }

  private func status(of host: TestHost) throws -> RelayStatus {
    try RelayStatus(document: try StatusClient.ask("figures", of: host))
  }

  private func standing(
    of name: String, on other: String, by host: TestHost
  ) throws -> FleetConfirmations.Standing? {
    let text = try StatusClient.ask("confirmations \(name)", of: host)
    return try FleetConfirmations(document: text).commands.first?.hosts
      .first { $0.name == other }?.standing
  }

  /// Gives a command with a time limit, which another host carries out and confirms.
  private func expectsThat(_ host: TestHost, commands other: TestHost, to name: String) async throws
  {
    try host.breaker(name).force(.observe, for: .seconds(3_600), scope: .fleet)
    try await eventually("\(other.options.host) observes \(name): \(other.log)") {
      try other.snapshot(name)?.mode == .observe
    }
    try await eventually("it has confirmed it") {
      try standing(of: name, on: other.options.host, by: host) == .confirmed
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `an attacker without the key cannot take the name of a host`() async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    let word = try command("HGET", "sb:{test}:host:b", "")
    b.stop()
    b.start()
    try await b.awaits(.connected, times: 2)
    // Not signed, signed by the earlier run, signed for another host, and no text at all.
    let unsigned = #"{"version":1,"run":"ff","lineage":"ee"}"#
    let others = try command("HGET", "sb:{test}:host:a", "")
    for (number, text) in [unsigned, word, others, "\u{1}"].enumerated() {
      // The server's clock passes the time for which an earlier description still counts.
      for _ in 0..<3 {
        try command("HSET", "sb:{test}:host:b", "", text)
        try command("ZADD", "sb:{test}:hosts", String(Self.now), "b")
        try await eventually("b has replaced it") {
          try command("HGET", "sb:{test}:host:b", "") != text
        }
      }
      try await expectsThat(a, commands: b, to: "pay\(number)")
    }
    try damage("HSET host:b ", with: "'', '\\255'")
    try await expectsThat(a, commands: b, to: "pay")
    // A relay that starts while the attacker keeps the name is not kept out either.
    b.stop()
    try command("HSET", "sb:{test}:host:b", "", unsigned)
    try command("ZADD", "sb:{test}:hosts", String(Self.now + 600_000), "b")
    let times = b.count(.connected) + 1
    b.start()
    try await b.awaits(.connected, times: times)
    let figures = try status(of: b)
    #expect(figures.unproven > 0 && figures.refused >= figures.unproven)
    #expect(b.log.contains { $0.contains("in the place of this host does not count") })
    let complaints = b.log.filter { $0.contains("in the place of this host") }
    #expect(complaints.count <= 4, "\(complaints)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `two relays with the key cannot work under one name`() async throws {
    let first = try await host("a")
    let second = try TestHost("b", as: "a", in: fleet.directory, address: fleet.server.address) {
      $0.keys = [Self.keys[0]]
    }
    second.start()
    try await eventually("the second one says so") {
      second.log.contains { $0.contains("another cbrelay works as host a") }
    }
    #expect(first.count(.problem) == 0 && second.count(.connected) == 0)
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: ["nan", "-nan", "inf", "-1", "1e300", "9007199254740992", "x", "0.5", ""])
  func `commands are numbered, whatever value the count is set to`(count: String) async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    try command("SET", "sb:{test}:count", count)
    try await expectsThat(a, commands: b, to: "pay")
    try await expectsThat(b, commands: a, to: "mail")
  }

  @Test(.timeLimit(.minutes(60)))
  func `an epoch that no relay has written counts as lost`() async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    for (number, lua) in ["'\\255\\254'", "''", "string.rep('a', 100000)", "'a b'"].enumerated() {
      try damage("SET epoch", with: lua)
      try await eventually("it is replaced") {
        (1...16).contains(try command("GET", "sb:{test}:epoch").utf8.count)
      }
      try await expectsThat(a, commands: b, to: "pay\(number)")
    }
    #expect(a.count(.problem) == 0 && b.count(.problem) == 0)
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: ["stream", "count", "epoch", "commands", "evidence", "hosts", "host:b"])
  func `a key of a wrong type is deleted, and that is told`(key: String) async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    try a.breaker("old").force(.observe, scope: .fleet)
    try await eventually("b has it") { try b.snapshot("old")?.mode == .observe }
    for host in [a, b] { host.stop() }
    try spoil(key)
    for host in [a, b] { host.start() }
    for host in [a, b] { try await host.awaits(.connected, times: 2) }
    try await expectsThat(a, commands: b, to: "pay")
    #expect((a.log + b.log).contains { $0.contains("had a type or a size that no relay gives it") })
    #expect(try status(of: a).unproven + status(of: b).unproven > 0)
    // So it is while relays are connected.
    try spoil(key)
    try await expectsThat(b, commands: a, to: "mail")
    let late = try await host("late")
    try await eventually("a new host learns all") {
      try ["old", "pay", "mail"].allSatisfy { try late.snapshot($0)?.mode == .observe }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `entries that are too large to be read keep no relay out`() async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    try a.breaker("old").force(.observe, scope: .fleet)
    try await eventually("b has it") { try b.snapshot("old")?.mode == .observe }
    for host in [a, b] { host.stop() }
    // Each is longer than an answer may be.
    let script = """
      local long = string.rep('9', 135 * 1048576)
      redis.call('XADD', KEYS[1], '*', 'x', long)
      for i = 2, 3 do redis.call('SET', KEYS[i], long) end
      for i = 4, 6 do redis.call('HSET', KEYS[i], ARGV[i - 3], long) end
      redis.call('ZADD', KEYS[7], ARGV[4], 'b')
      """
    let names = ["stream", "count", "epoch", "commands", "evidence", "host:b", "hosts"]
    let keys = names.map { "sb:{test}:\($0)" }
    try fleet.server.command(
      words: ["EVAL", script, String(keys.count)] + keys
        + ["old\nmode", "db\nx", "", String(Self.now)])
    for host in [a, b] { host.start() }
    for host in [a, b] { try await host.awaits(.connected, times: 2) }
    try await expectsThat(a, commands: b, to: "pay")
    // On a busy host the server may answer too late, and has deleted the entries then without being heard.
    let wasCutOff = [a, b].contains { $0.count(.problem) > 0 }
    #expect(
      wasCutOff || (a.log + b.log).contains { $0.contains("a size that no relay gives it") })
    // An entry of more parts than an answer may have, which relays hear that are connected.
    let connection = try RedisConnection(to: a.options.address, patience: .seconds(60))
    let parts = Array(repeating: "x", count: 1_000_002)
    _ = try connection.ask([["XADD", "sb:{test}:stream", "*"] + parts])
    try await expectsThat(b, commands: a, to: "mail")
    let late = try await host("late")
    try await eventually("a new host learns all") {
      try ["old", "pay", "mail"].allSatisfy { try late.snapshot($0)?.mode == .observe }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `no entry of the stream can be the last one`() async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    let last = "18446744073709551615-18446744073709551615"
    try command("XADD", "sb:{test}:stream", last, "x", "1")
    try await expectsThat(a, commands: b, to: "pay")
    try await expectsThat(b, commands: a, to: "mail")
    // Nor if it is not there any more.
    try command("XADD", "sb:{test}:stream", last, "x", "1")
    try command("XDEL", "sb:{test}:stream", last)
    try await expectsThat(a, commands: b, to: "api")
  }

  @Test(.timeLimit(.minutes(60)), arguments: [80_000_000, -1_000_000_000_000])
  func `the name of an entry makes no command older or younger`(milliseconds: Int64) async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    if milliseconds < 0 { try command("DEL", "sb:{test}:stream") }
    let time = milliseconds < 0 ? 1 : Self.now + milliseconds
    try command("XADD", "sb:{test}:stream", "\(time)-1", "x", "1")
    // Each message that follows has such a name, and the commands in it have a time limit.
    for number in 0..<3 { try await expectsThat(a, commands: b, to: "pay\(number)") }
    for host in [a, b] { _ = try host.breaker("db", sharedPolicy) }
    let c = try await host("c")
    _ = try c.breaker("db", sharedPolicy)
    for host in [a, b] { try host.breaker("db").trip(for: .seconds(3_600)) }
    try await eventually("c suspects it") { try c.snapshot("db")?.state == .halfOpen }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command that the server keeps grows no older, and damage does not stop it`() async throws
  {
    let a = try await host("a")
    try a.breaker("pay").force(.observe, for: .seconds(3_600), scope: .fleet)
    try await eventually("it is told") { try a.store.fleetStanding()?.waiting == 0 }
    let kept = try command("HGET", "sb:{test}:commands", "pay\nmode")
    var words = kept.split(separator: " ", maxSplits: 3).map(String.init)
    words[2] = "5"
    try command("HSET", "sb:{test}:commands", "pay\nmode", words.joined(separator: " "))
    let b = try await host("b")
    try await eventually("b observes it") { try b.snapshot("pay")?.mode == .observe }
    // This is not even text, and seems to be later.
    let later = "'\(Self.now + 80_000_000) z \(Self.now) {\\255'"
    for name in ["pay", "mail"] {
      try command(
        "EVAL", "return redis.call('HSET', KEYS[1], ARGV[1], \(later))", "1",
        "sb:{test}:commands", "\(name)\nmode")
    }
    try await expectsThat(a, commands: b, to: "mail")
    // A relay that reads it brings back what its host knows.
    a.stop()
    a.start()
    try await a.awaits(.connected, times: 2)
    try await eventually("the command is there again") {
      try command("HGET", "sb:{test}:commands", "pay\nmode").contains(#""seals":"#)
    }
    #expect(try status(of: a).refused > 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `damaged evidence and descriptions, and hosts that do not exist, stop no relay`()
    async throws
  {
    let (a, b) = (try await host("a"), try await host("b"))
    let script = """
      local texts = {'\\255', '', string.rep('9', 400), '1 1', '{', '-1 nan inf nan 1e999 :'}
      for number, text in ipairs(texts) do
        for _, field in ipairs({'db' .. number .. '\\nb', '\\255' .. number, text}) do
          for _, key in ipairs(KEYS) do redis.call('HSET', key, field, text) end
        end
      end
      for number = 1, 1000 do redis.call('ZADD', ARGV[1], ARGV[2], 'h' .. number) end
      redis.call('ZADD', ARGV[1], 'inf', 'f', '-inf', 'g', '1e300', '\\255', ARGV[2], 'z')
      """
    let keys = ["evidence", "host:z", "host:b"].map { "sb:{test}:\($0)" }
    try fleet.server.command(
      words: ["EVAL", script, String(keys.count)] + keys + ["sb:{test}:hosts", String(Self.now)])
    try await expectsThat(a, commands: b, to: "pay")
    b.stop()
    b.start()
    try await b.awaits(.connected, times: 2)
    try await expectsThat(b, commands: a, to: "mail")
    let report = try RelayStatus(document: try StatusClient.ask("status", of: b))
    #expect(report.hosts?.first { $0.name == "z" }?.isProven == false)
    #expect(report.hosts?.first { $0.name == "a" }?.isProven == true)
    #expect(report.refused > 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command takes a command key, in whatever name, and the key can be replaced`()
    async throws
  {
    let orders = ["44", "55"].compactMap {
      CommandKey(hexadecimal: String(repeating: $0, count: 32))
    }
    let (first, second) = (orders[0], orders[1])
    let ops = try await host("ops") {
      $0.commandKey = first
      $0.obeyedKeys = [first.name]
    }
    let a = try await host("a") { $0.obeyedKeys = [first.name] }
    try await expectsThat(ops, commands: a, to: "pay")
    #expect(RelayCheck(ops.options).lines.contains { $0.hasSuffix(first.name.text) })
    let words = "ok: commands to the fleet are refused on this host: "
    #expect(RelayCheck(a.options).lines.contains { $0.hasPrefix(words) })
    // This one has the key of the fleet and obeys every host, so its relay lets all commands out.
    let rogue = try await host("rogue")
    try rogue.breaker("db").force(.forcedOpen, scope: .fleet)
    try await eventually("a has refused it") {
      try standing(of: "db", on: "a", by: rogue) == .refused
    }
    rogue.stop()
    let impostor = try TestHost("i", as: "ops", in: fleet.directory, address: fleet.server.address)
    {
      $0.keys = [Self.keys[0]]
    }
    ops.stop()
    impostor.start()
    try await impostor.awaits(.connected)
    try impostor.breaker("mail").force(.forcedOpen, scope: .fleet)
    try await eventually("a has refused the impostor") {
      try standing(of: "mail", on: "a", by: impostor) == .refused
    }
    #expect(a.log.contains { $0.contains("no key that this host obeys has signed it") })
    impostor.stop()
    ops.start()
    try await ops.awaits(.connected, times: 2)
    #expect(try a.snapshot("db") == nil && a.snapshot("mail") == nil)
    // A host without such a key learns where to command.
    try a.breaker("api").force(.observe, scope: .fleet)
    try await eventually("a says why it waits") {
      try a.store.fleetStanding()?.refusal?.contains("--command-key-file") == true
    }
    // Both keys count while one replaces the other, and no command is lost.
    let steps: [(key: CommandKey, obeyed: [CommandKeyName])] = [
      (first, [first.name, second.name]), (second, [first.name, second.name]),
      (second, [second.name]),
    ]
    for (number, step) in steps.enumerated() {
      for host in [a, ops] {
        host.stop()
        var options = host.options
        options.obeyedKeys = step.obeyed
        options.commandKey = host === ops ? step.key : nil
        host.start(options)
        try await host.awaits(.connected, times: number + (host === ops ? 3 : 2))
      }
      try await expectsThat(ops, commands: a, to: "step\(number)")
    }
    let late = try await host("late") { $0.obeyedKeys = [second.name] }
    try await eventually("a host that comes later follows all of them") {
      try ["pay", "step0", "step1", "step2"].allSatisfy {
        try late.snapshot($0)?.mode == .observe
      }
    }
  }
}
