import BreakerRelay
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Relays of both versions of the protocol in one fleet; what version 1 says was recorded from 0.9.0.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct RollingUpgradeTests {
  private let fleet: TestFleet
  private static let lineage = "60eb323dfcb6ca9f"

  /// Messages that a relay of version 1 appended to the stream, without the numbers.
  private static let messages = [
    [
      "v": "1", "k": "command", "h": "old", "l": lineage, "b": "pay", "s": "1795446286206",
      "c": #"{"action":"force","mode":"forced_open","for_ms":31536000000,"reason":"drill","by":"#
        + #""root, via cbctl","age_ms":2}"#,
    ],
    [
      "v": "1", "k": "command", "h": "old", "l": lineage, "b": "db", "s": "1795446286247",
      "c": #"{"action":"policy","set":"max-failures=1 open-for=1h fleet-quorum=1 "#
        + #"fleet-spread=1s","unset":"","by":"root, via cbctl","age_ms":1}"#,
    ],
    [
      "v": "1", "k": "open", "h": "old", "l": lineage, "b": "db", "g": "2", "r": "3599997",
    ],
  ]

  /// The commands as it kept them beside the stream, and the open breaker.
  private static let commands = [
    "pay\nmode": "1795446286206 old 1795446286206 "
      + #"{"action":"force","mode":"forced_open","for_ms":31536000000,"reason":"drill","by":"#
      + #""root, via cbctl","age_ms":2}"#,
    "db\npolicy:max-failures": "1795446286247 old 1795446286247 "
      + #"{"action":"policy","set":"max-failures=1","unset":"","by":"root, via cbctl","age_ms":1}"#,
    "db\npolicy:fleet-quorum": "1795446286247 old 1795446286247 "
      + #"{"action":"policy","set":"fleet-quorum=1","unset":"","by":"root, via cbctl","age_ms":1}"#,
  ]
  private static let description =
    #"{"version":1,"run":"64fd6853d3f1e3b9","lineage":"60eb323dfcb6ca9f","relay":"0.9.0","#
    + #""since":"2026-11-23T15:04:44.089Z"}"#

  init() throws { fleet = try TestFleet() }

  private func append(_ messages: [[String: String]]) throws {
    let script = """
      local n = redis.call('INCR', KEYS[2])
      return redis.call('XADD', KEYS[1], '*', 'n', n, unpack(ARGV))
      """
    let connection = try RedisConnection(
      to: try RedisAddress(fleet.server.address), patience: .seconds(60))
    for message in messages {
      let words = message.flatMap { [$0.key, $0.value] }
      _ = try connection.ask(
        ["EVAL", script, "2", "sb:{test}:stream", "sb:{test}:count"] + words)
    }
  }

  /// Writes what a relay of version 1 leaves on the server.
  private func keepState() throws {
    for (field, value) in Self.commands {
      try fleet.server.command("HSET", "sb:{test}:commands", field, value)
    }
    let now = StoreClock.system.wallTime.millisecondsSince1970
    try fleet.server.command(
      "HSET", "sb:{test}:evidence", "db\nold", "\(Self.lineage) 2 \(now + 3_599_997)")
    try fleet.server.command("ZADD", "sb:{test}:hosts", String(now + 80_000_000), "old")
    try fleet.server.command("HSET", "sb:{test}:host:old", "", Self.description)
  }

  private func status(of host: TestHost) throws -> RelayStatus {
    try RelayStatus(document: try StatusClient.ask("figures", of: host))
  }

  @Test(.timeLimit(.minutes(60)), arguments: [false, true])
  func `a host follows hosts of version 1, and knows that they do not confirm`(
    signs: Bool
  ) async throws {
    try keepState()
    let a = try await fleet.host("a") { options in
      guard signs, let key = FleetKey(hexadecimal: String(repeating: "11", count: 32)) else {
        return
      }
      options.keys = [key]
      options.acceptsUnsigned = true
    }
    #expect(try a.snapshot("pay")?.modeReason == "drill")
    #expect(try a.snapshot("db")?.policy.fleetQuorum == .hosts(1))
    _ = try await a.breaker("db").run { 1 }
    try append(Self.messages)
    try await eventually("a has the rest of the policy") {
      try a.snapshot("db")?.policy.fleetSpread == .seconds(1)
    }
    try await eventually("a suspects the breaker") {
      try a.store.history(of: "db").contains { $0.change.wireKind == "suspicion" }
    }
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("a knows that version 1 does not confirm") {
      let text = try StatusClient.ask("confirmations pay", of: a)
      let hosts = try FleetConfirmations(document: text).commands.first?.hosts
      return hosts?.first { $0.name == "old" }?.standing == .mute
    }
    let hosts = try status(of: a).hosts
    #expect(hosts?.map(\.speaks) == [2, 1])
    #expect(hosts?.first { $0.name == "old" }?.relay == "0.9.0")
    #expect(try status(of: a).refused == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host that demands signatures refuses version 1, and says so`() async throws {
    try keepState()
    let a = try await fleet.host("a") { options in
      options.keys = [FleetKey(hexadecimal: String(repeating: "11", count: 32))].compactMap { $0 }
    }
    try append(Self.messages)
    try await eventually("a has refused all of it") {
      try status(of: a).unproven == Int64(Self.commands.count + Self.messages.count)
    }
    #expect(try a.snapshot("pay") == nil)
    #expect(a.log.contains { $0.contains("not signed with a key of the fleet") })
    #expect(try status(of: a).hosts?.first { $0.name == "old" }?.isProven == false)
  }

  @Test(.timeLimit(.minutes(60)), arguments: [false, true])
  func `version 1 can read all that a host tells`(signs: Bool) async throws {
    let a = try await fleet.host("a") { options in
      guard signs else { return }
      options.keys = [FleetKey(hexadecimal: String(repeating: "11", count: 32))].compactMap { $0 }
    }
    try a.breaker("pay").force(.forcedOpen, for: .seconds(600), reason: "drill", scope: .fleet)
    _ = try a.breaker("db", sharedPolicy)
    try a.breaker("db").overridePolicy(set: [.probes: "2"], unset: [.jitter], scope: .fleet)
    try a.breaker("db").trip(for: .seconds(3_600))
    try await eventually("all is told") {
      try fleet.server.command("XLEN", "sb:{test}:stream") == "3"
    }
    let connection = try RedisConnection(to: a.options.address, patience: .seconds(60))
    let entries = try connection.ask(["XRANGE", "sb:{test}:stream", "-", "+"]).elements ?? []
    let usual: [String: Set<String>] = [
      "command": ["v", "n", "k", "h", "l", "b", "s", "c"],
      "open": ["v", "n", "k", "h", "l", "b", "g", "r"],
    ]
    for entry in entries {
      let pairs = entry.elements?.last?.pairs ?? []
      let fields = Dictionary(
        pairs.map { ($0.field.text ?? "", $0.value.text ?? "") }, uniquingKeysWith: { $1 })
      #expect(fields["v"] == "1")
      let known = try #require(usual[fields["k"] ?? ""])
      #expect(Set(fields.keys) == known.union(signs ? ["t", "m"] : []))
      // Version 1 ignores members that it does not know, and demands these.
      guard let text = fields["c"] else { continue }
      let read = try CommandText.command(text, name: "pay", host: "a", stamp: 1)
      #expect(!read.author.isEmpty)
    }
    let kept = try connection.ask(["HGETALL", "sb:{test}:commands"]).pairs ?? []
    #expect(kept.count == 3)
    for (_, value) in kept {
      let parts = value.text?.split(separator: " ", maxSplits: 3) ?? []
      #expect(
        parts.count == 4 && Int64(parts[0]) != nil && parts[1] == "a" && Int64(parts[2]) != nil)
    }
    let evidence = try connection.ask(["HGETALL", "sb:{test}:evidence"]).pairs ?? []
    #expect(evidence.map { $0.value.text?.split(separator: " ").count } == [3])
    let word = try fleet.server.command("HGET", "sb:{test}:host:a", "")
    #expect(
      word.contains(#""lineage":""#) && word.contains(#""run":""#) && word.utf8.count <= 1_024)
  }
}
