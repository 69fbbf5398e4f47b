import BreakerRelay
import SharedBreaker
import TestSupport
import Testing

/// Messages from programs that are not relays, or that are relays of another version.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct HostileMessageTests {
  private let fleet: TestFleet
  private let a: TestHost

  init() async throws {
    fleet = try TestFleet()
    a = try await fleet.host("a")
  }

  /// Appends an entry as a relay would, with the next number.
  private func forge(_ fields: [String: String]) throws {
    let script = """
      local n = redis.call('INCR', KEYS[2])
      return redis.call('XADD', KEYS[1], '*', 'n', n, unpack(ARGV))
      """
    let words = fields.flatMap { [$0.key, $0.value] }
    let connection = try RedisConnection(to: a.options.address, patience: .seconds(60))
    _ = try connection.ask(
      ["EVAL", script, "2", "sb:{test}:stream", "sb:{test}:count"] + words)
  }

  /// Expects this many messages in the stream, besides any that were sent again because an answer was lost.
  private func expectMessages(_ count: Int) throws {
    let entries = try #require(Int(try fleet.server.command("XLEN", "sb:{test}:stream")))
    #expect(entries >= count && entries <= count + a.count(.problem), "\(entries): \(a.log)")
  }

  private func command(_ host: String, _ text: String, stamp: String = "1") -> [String: String] {
    ["v": "1", "k": "command", "h": host, "l": "1", "b": "pay", "s": stamp, "c": text]
  }

  private let observe = #"{"action":"force","mode":"observe","by":"x"}"#

  @Test(.timeLimit(.minutes(60)))
  func `a message that cannot be used is refused once for each host, and others are used`()
    async throws
  {
    for _ in 0..<3 {
      try forge(["v": "2", "h": "z", "b": "pay"])
      try forge([
        "v": "1", "h": "z", "k": "open", "b": "pay\u{1b}[2J", "l": "1", "g": "1", "r": "5",
      ])
      try forge(command("z", #"{"action":"policy","set":"open-for=never","by":"x"}"#))
      try forge(["v": "1", "x": String(repeating: "x", count: 70_000)])
      try forge(command("z", observe, stamp: "9007199254740993"))
      try fleet.server.command("XADD", "sb:{test}:stream", "*", "no", "number")
    }
    try forge(command("z", observe))
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    #expect(a.count(.refused) == 6, "\(a.log)")
    #expect(a.count(.catchingUp) == 0)
    #expect(!a.log.contains { $0.contains("\u{1b}") })
  }

  @Test(.timeLimit(.minutes(60)))
  func `an outdated opening of the host itself is taken back`() async throws {
    _ = try a.breaker("db", sharedPolicy)
    try fleet.server.command("HSET", "sb:{test}:evidence", "db\na", "1 1 9000000000000")
    try forge(["v": "1", "k": "open", "h": "a", "l": "1", "b": "db", "g": "1", "r": "60000"])
    try await eventually("a has taken it back") {
      try fleet.server.command("EXISTS", "sb:{test}:evidence") == "0"
    }
    // An outdated closing of its own that changes nothing needs no correction.
    try forge(command("z", observe))
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    try expectMessages(3)
  }

  @Test(.timeLimit(.minutes(60)))
  func `an outdated closing of the host itself is corrected`() async throws {
    try a.breaker("db", sharedPolicy).trip(for: .seconds(3_600))
    try await eventually("a has told it") {
      try fleet.server.command("EXISTS", "sb:{test}:evidence") == "1"
    }
    try fleet.server.command("HDEL", "sb:{test}:evidence", "db\na")
    try forge(["v": "1", "k": "closed", "h": "a", "l": "1", "b": "db", "g": "1"])
    try await eventually("a has told it again") {
      try fleet.server.command("HKEYS", "sb:{test}:evidence") == "db\na"
    }
    try expectMessages(3)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a message in the name of the host that reads it changes nothing`() async throws {
    try forge(command("a", #"{"action":"force","mode":"forced_open","by":"x"}"#, stamp: "50"))
    try forge(command("z", observe))
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    #expect(try a.store.history(of: "pay").count { $0.change.wireKind == "mode" } == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a number that is used again makes a host read everything again`() async throws {
    try forge(command("z", observe))
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    try fleet.server.command("XADD", "sb:{test}:stream", "*", "n", "1", "v", "1")
    try await a.awaits(.catchingUp)
    // It also passes on the command that the server lacks, because no relay has done so.
    try await eventually("a has caught up") {
      try fleet.server.command("HLEN", "sb:{test}:commands") == "1"
    }
    try forge(command("z", #"{"action":"force","mode":"forced_open","by":"x"}"#, stamp: "2"))
    try await eventually("a is forced open") { try a.snapshot("pay")?.mode == .forcedOpen }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a reset that comes late leaves an open breaker open`() async throws {
    let breaker = try a.breaker("pay")
    try breaker.trip(for: .seconds(3_600))
    try forge(command("z", #"{"action":"reset","by":"x","age_ms":3600000}"#))
    try forge(command("z", observe, stamp: "2"))
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    #expect(try a.snapshot("pay")?.state == .open)
    try forge(command("z", #"{"action":"reset","by":"x","age_ms":100}"#, stamp: "3"))
    try await eventually("a is closed") { try a.snapshot("pay")?.state == .closed }
  }

  @Test(.timeLimit(.minutes(60)))
  func `evidence about more breakers than a relay remembers is refused once`() async throws {
    a.stop()
    let until = StoreClock.system.wallTime.millisecondsSince1970 + 3_600_000
    let script = """
      for i = 0, ARGV[1] do
        redis.call('HSET', KEYS[1], 'lie.' .. i .. '\\nz', '1 1 ' .. ARGV[2])
      end
      """
    try fleet.server.command(
      "EVAL", script, "1", "sb:{test}:evidence", String(FleetView.room), String(until))
    a.start()
    try await a.awaits(.connected, times: 2)
    try forge(["v": "1", "h": "z", "k": "open", "b": "lie", "l": "1", "g": "1", "r": "60000"])
    try forge(command("z", observe))
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    #expect(a.count(.refused) == 1, "\(a.log)")
    #expect(a.log.contains { $0.contains("100000 breakers of other hosts are open") })
  }

  @Test(.timeLimit(.minutes(60)))
  func `impossible numbers do not stop a relay`() async throws {
    let least = "-9223372036854775808"
    let most = "9223372036854775807"
    let now = String(StoreClock.system.wallTime.millisecondsSince1970)
    a.stop()
    let lineage = try a.store.lineage()
    try fleet.server.command(
      "HSET", "sb:{test}:commands", "x\nmode", "5 h \(least) \(observe)", "y\nmode",
      "\(most) h 5 \(observe)")
    try fleet.server.command(
      "HSET", "sb:{test}:evidence", "x\na", "\(lineage) 1 \(least)", "y\na",
      "\(lineage) 1 \(most)")
    try fleet.server.command(
      "HSET", "sb:{test}:host:z", "x",
      #"{"state":"open","mode":"automatic","open_until_ms":\#(least)}"#)
    try fleet.server.command("ZADD", "sb:{test}:hosts", "-1e300", "w", most, "y", now, "z")
    try fleet.server.command("SET", "sb:{test}:count", most)
    a.start()
    try await a.awaits(.connected, times: 2)
    let document = try StatusClient.ask("status", of: a)
    #expect(document.contains(#""connected":true"#))
    #expect(document.contains(#"{"host":"z""#))
    // A real host is still heard.
    let b = try await fleet.host("b")
    try b.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    try b.breaker("x").force(.observe, scope: .fleet)
    try await eventually("a observes what was spoiled") { try a.snapshot("x")?.mode == .observe }
    try b.breaker("y").force(.observe, scope: .fleet)
    try await eventually("a observes what was blocked") { try a.snapshot("y")?.mode == .observe }
  }
}
