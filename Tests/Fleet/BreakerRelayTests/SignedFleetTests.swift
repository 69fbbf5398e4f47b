import BreakerRelay
import ProgramKit
import SharedBreaker
import TestSupport
import Testing

/// A fleet with a key, whose server an attacker can write to.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct SignedFleetTests {
  private static let keys = ["11", "22"].compactMap {
    FleetKey(hexadecimal: String(repeating: $0, count: 32))
  }
  private let fleet: TestFleet

  init() throws { fleet = try TestFleet() }

  private static func signs(_ options: inout RelayOptions) { options.keys = [keys[0]] }

  private func host(
    _ name: String, with change: (inout RelayOptions) -> Void = { Self.signs(&$0) }
  ) async throws -> TestHost {
    try await fleet.host(name, with: change)
  }

  /// Appends an entry as a relay would, with the next number.
  private func forge(_ fields: [String: String], by host: TestHost) throws {
    let script = """
      local n = redis.call('INCR', KEYS[2])
      return redis.call('XADD', KEYS[1], '*', 'n', n, unpack(ARGV))
      """
    let words = fields.flatMap { [$0.key, $0.value] }
    let connection = try RedisConnection(to: host.options.address, patience: .seconds(60))
    _ = try connection.ask(
      ["EVAL", script, "2", "sb:{test}:stream", "sb:{test}:count"] + words)
  }

  private let force = #"{"action":"force","mode":"forced_open","by":"x"}"#

  private func forged(_ host: String, stamp: Int64 = 1) -> [String: String] {
    ["v": "1", "k": "command", "h": host, "l": "1", "b": "pay", "s": String(stamp), "c": force]
  }

  private func status(of host: TestHost, _ question: String = "figures") throws -> RelayStatus {
    try RelayStatus(document: try StatusClient.ask(question, of: host))
  }

  private func confirmations(
    of name: String, by host: TestHost
  ) throws -> [String: FleetConfirmations.Host] {
    let text = try StatusClient.ask("confirmations \(name)", of: host)
    let hosts = try FleetConfirmations(document: text).commands.first?.hosts ?? []
    return Dictionary(uniqueKeysWithValues: hosts.map { ($0.name, $0) })
  }

  private static var now: Int64 { StoreClock.system.wallTime.millisecondsSince1970 }

  @Test(.timeLimit(.minutes(60)))
  func `an attacker that can write to the server, and has no key, commands no host`() async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    try forge(forged("b"), by: a)
    try forge(forged("z", stamp: Self.now + 3_600_000), by: a)
    try forge(
      ["v": "1", "k": "open", "h": "z", "l": "1", "b": "pay", "g": "1", "r": "60000"], by: a)
    // It comes after them, so they have been read.
    try b.breaker("pay").force(.observe, reason: "real", scope: .fleet)
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    #expect(try a.snapshot("pay")?.modeReason == "real")
    try await eventually("b knows that a has done it") {
      try confirmations(of: "pay", by: b)["a"]?.standing == .confirmed
    }
    let figures = try status(of: a)
    #expect(figures.unproven == 3 && figures.refused == 3)
    #expect(figures.keys == [Self.keys[0].id] && !figures.acceptsUnsigned)
    #expect(figures.hosts?.allSatisfy { $0.isProven == true && $0.speaks == 1 } == true)
    #expect(a.log.contains { $0.contains("not signed with a key of the fleet") })
    #expect(a.count(.catchingUp) == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `forgeries on the server are not believed, and disturb no host`() async throws {
    let tomorrow = Self.now + 80_000_000
    try fleet.server.command(
      "HSET", "sb:{test}:commands", "pay\nmode", "\(tomorrow) z \(Self.now) \(force)",
      "mail\nmode", "\(tomorrow) z \(Self.now) \(force)")
    for end in ["", " \(Self.now) 60000 1:2"] {
      for host in ["x", "y", "z"] {
        try fleet.server.command(
          "HSET", "sb:{test}:evidence", "db\n\(host)\(end.utf8.count)",
          "1 1 \(Self.now + 60_000)\(end)")
      }
    }
    let (a, b) = (try await host("a"), try await host("b"))
    _ = try b.breaker("db", sharedPolicy)
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    #expect(try b.snapshot("mail") == nil)
    #expect(try b.snapshot("db")?.state == .closed)
    // A forgery that comes while relays are connected disturbs no host either.
    try fleet.server.command(
      "HSET", "sb:{test}:commands", "pay\nmode", "\(tomorrow) z \(Self.now) \(force)")
    try b.breaker("pay").force(.forcedClosed, scope: .fleet)
    try await eventually("a is forced closed") { try a.snapshot("pay")?.mode == .forcedClosed }
    try await eventually("a has done it, as far as b knows") {
      try confirmations(of: "pay", by: b)["a"]?.standing == .confirmed
    }
    // Signed evidence counts as before.
    for host in [a, b] {
      _ = try host.breaker("api", sharedPolicy)
    }
    let c = try await self.host("c")
    _ = try c.breaker("api", sharedPolicy)
    for host in [a, b] { try host.breaker("api").trip(for: .seconds(3_600)) }
    try await eventually("c suspects it") { try c.snapshot("api")?.state == .halfOpen }
    // A relay that starts now knows it from the state.
    let d = try await self.host("d")
    _ = try d.breaker("api", sharedPolicy)
    d.stop()
    d.start()
    try await eventually("d suspects it") { try d.snapshot("api")?.state == .halfOpen }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a confirmation in the name of another host is not believed`() async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("b has done it, as far as a knows") {
      try confirmations(of: "pay", by: a)["b"]?.standing == .confirmed
    }
    let word = try fleet.server.command("HGET", "sb:{test}:host:b", "")
    b.stop()
    try a.breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("it is told") { try a.store.fleetStanding()?.waiting == 0 }
    try fleet.server.command(
      "ZADD", "sb:{test}:hosts", String(Self.now), "b", String(Self.now), "c")
    // A true word that is too old, the same for another host, and one that says more than was signed.
    try fleet.server.command("HSET", "sb:{test}:host:b", "", word)
    try fleet.server.command("HSET", "sb:{test}:host:c", "", word)
    try await eventually("b has not done it, and there is no c") {
      let hosts = try confirmations(of: "pay", by: a)
      return hosts["b"]?.standing == .pending && hosts["c"] == nil
    }
    let plain = #"{"lineage":"1","run":"1","sent":\#(Self.now),"heard":"0"}"#
    for text in [word.replacing(#""heard":""#, with: #""heard":"0 "#), plain] {
      try fleet.server.command("HSET", "sb:{test}:host:b", "", text)
      #expect(try confirmations(of: "pay", by: a)["b"]?.standing == .pending)
    }
    #expect(try status(of: a).hosts?.first { $0.name == "b" }?.isProven == false)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host that hears a signed message again does nothing twice`() async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    for host in [a, b] { _ = try host.breaker("db", sharedPolicy) }
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    try a.breaker("db").trip(for: .seconds(3_600))
    try await eventually("a has told it") {
      try fleet.server.command("HLEN", "sb:{test}:evidence") == "1"
    }
    try a.breaker("db").reset()
    try await eventually("a has taken it back") {
      try fleet.server.command("HLEN", "sb:{test}:evidence") == "0"
    }
    try a.breaker("pay").force(.automatic, scope: .fleet)
    try await eventually("b is automatic again") {
      try b.store.history(of: "pay").count { $0.change.wireKind == "mode" } == 2
    }
    let connection = try RedisConnection(to: a.options.address, patience: .seconds(60))
    let entries = try connection.ask(["XRANGE", "sb:{test}:stream", "-", "+"]).elements ?? []
    #expect(entries.count == 4)
    for entry in entries.reversed() {
      var fields: [String: String] = [:]
      for (field, value) in entry.elements?.last?.pairs ?? [] where field.text != "n" {
        fields[field.text ?? ""] = value.text
      }
      try forge(fields, by: a)
    }
    try b.breaker("mail").force(.observe, scope: .fleet)
    try await eventually("a observes") { try a.snapshot("mail")?.mode == .observe }
    try await eventually("b has read its own") {
      try confirmations(of: "mail", by: a)["a"]?.standing == .confirmed
    }
    for host in [a, b] {
      #expect(try host.store.history(of: "pay").count { $0.change.wireKind == "mode" } == 2)
      #expect(try host.snapshot("pay")?.mode == .automatic)
    }
    #expect(try b.snapshot("db")?.state == .closed)
    #expect(try status(of: b).unproven == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `only hosts with a role are obeyed, and another one learns where to command`() async throws {
    func obeys(_ options: inout RelayOptions) {
      options.keys = [Self.keys[0]]
      options.obeyed = ["ops"]
    }
    let ops = try await host("ops", with: obeys)
    let a = try await host("a", with: obeys)
    let rogue = try await host("rogue")
    try a.breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("a says why it waits") {
      try a.store.fleetStanding()?.refusal?.contains("give it on ops") == true
    }
    // The relay of this one would let it out.
    try rogue.breaker("db").force(.forcedOpen, scope: .fleet)
    try await eventually("it is told") { try rogue.store.fleetStanding()?.waiting == 0 }
    try ops.breaker("db").force(.observe, scope: .fleet)
    try await eventually("a observes") { try a.snapshot("db")?.mode == .observe }
    #expect(a.log.contains { $0.contains("rogue may not command this one") })
    try rogue.breaker("mail").force(.forcedOpen, scope: .fleet)
    try await eventually("ops has refused it") {
      try confirmations(of: "mail", by: rogue)["ops"]?.standing == .refused
    }
    #expect(try ops.snapshot("mail") == nil)
    // A user that can write to the store of a host cannot give commands in the name of another one.
    a.stop()
    let path = try #require(a.options.store)
    let stamp = Self.now
    for table in ["fleet_command", "fleet_outbox"] {
      _ = try Database.rows(path, "UPDATE \(table) SET host = 'ops', stamp = \(stamp)")
    }
    a.start()
    try await eventually("a does not let it out") {
      try a.store.fleetStanding()?.refusal?.contains("has not signed it") == true
    }
    #expect(try ops.snapshot("pay") == nil)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a key is replaced without losing a command`() async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    try a.breaker("pay").force(.forcedOpen, scope: .fleet)
    try b.breaker("mail").force(.forcedOpen, scope: .fleet)
    try await eventually("both have both") {
      try a.snapshot("mail")?.mode == .forcedOpen && b.snapshot("pay")?.mode == .forcedOpen
    }
    let steps = [[0, 1], [1, 0], [1]]
    for (number, step) in steps.enumerated() {
      for host in [a, b] {
        host.stop()
        var options = host.options
        options.keys = step.map { Self.keys[$0] }
        host.start(options)
        try await host.awaits(.connected, times: number + 2)
        // Hosts with the earlier keys and with the later ones understand each other.
        let mode: BreakerMode = number % 2 == 0 ? .observe : .forcedClosed
        try host.breaker("step\(number)").force(mode, scope: .fleet)
        for other in [a, b] {
          try await eventually("all follow step \(number)") {
            try other.snapshot("step\(number)")?.mode == mode
          }
        }
        try host.breaker("step\(number)").force(.automatic, scope: .fleet)
        for other in [a, b] {
          try await eventually("all follow the end of step \(number)") {
            try other.snapshot("step\(number)")?.mode == .automatic
          }
        }
      }
    }
    #expect(try [a, b].allSatisfy { try status(of: $0).unproven == 0 })
    // A host that comes later, with the new key alone, hears the commands of before.
    let c = try await host("c") { $0.keys = [Self.keys[1]] }
    try await eventually("c follows them") {
      try c.snapshot("pay")?.mode == .forcedOpen && c.snapshot("mail")?.mode == .forcedOpen
    }
    #expect(try status(of: c).unproven == 0)
    // So it does from b alone, when the server has lost everything and a is gone.
    for host in [a, b, c] { host.stop() }
    try fleet.server.command("FLUSHALL")
    var options = b.options
    options.keys = [Self.keys[1]]
    b.start(options)
    try await b.awaits(.connected, times: 5)
    let d = try await host("d") { $0.keys = [Self.keys[1]] }
    try await eventually("d follows a") { try d.snapshot("pay")?.mode == .forcedOpen }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a fleet gets its first key host by host`() async throws {
    let (a, b) = (try await host("a", with: { _ in }), try await host("b", with: { _ in }))
    func accepts(_ options: inout RelayOptions) {
      options.keys = [Self.keys[0]]
      options.acceptsUnsigned = true
    }
    a.stop()
    var options = a.options
    accepts(&options)
    a.start(options)
    try await a.awaits(.connected, times: 2)
    try b.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("a follows b") { try a.snapshot("pay")?.mode == .observe }
    try a.breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("b follows a") { try b.snapshot("pay")?.mode == .forcedOpen }
    let hosts = try status(of: a).hosts
    #expect(hosts?.map(\.isProven) == [true, false])
    #expect(try status(of: a).acceptsUnsigned)
    #expect(try confirmations(of: "pay", by: a)["b"] != nil)
    // Once a demands signatures, b is refused, and a says so.
    a.stop()
    options.acceptsUnsigned = false
    a.start(options)
    try await a.awaits(.connected, times: 3)
    try b.breaker("mail").force(.observe, scope: .fleet)
    try await eventually("a refuses it") { try status(of: a).unproven > 0 }
    #expect(try a.snapshot("mail") == nil)
    // For a it is as if there were no such command.
    #expect(try confirmations(of: "mail", by: b)["a"]?.standing == .pending)
  }
}

/// Forgetting hosts that are gone.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct ForgettingTests {
  @Test(.timeLimit(.minutes(60)))
  func `a host that is gone is forgotten, and one that works is not`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    func forget(_ name: String) throws -> FleetDismissal {
      try FleetDismissal(document: try StatusClient.ask("forget \(name)", of: hosts[0]))
    }
    let long = StoreClock.system.wallTime.millisecondsSince1970 - 600_000
    try fleet.server.command("ZADD", "sb:{test}:hosts", String(long), "dead")
    try fleet.server.command("HSET", "sb:{test}:host:dead", "", "{}")
    let dead = try forget("dead")
    #expect(dead.isForgotten && dead.silence.map { $0 >= .seconds(600) } == true)
    #expect(try fleet.server.command("HGET", "sb:{test}:host:dead", "").contains("left"))
    #expect(try fleet.server.command("ZSCORE", "sb:{test}:hosts", "dead") == "")
    #expect(try forget("dead") == FleetDismissal())
    #expect(try !forget("b").isForgotten)
    #expect(try fleet.server.command("ZSCORE", "sb:{test}:hosts", "b") != "")
    #expect(try forget("no name").problem?.contains("only letters") == true)
    hosts[1].stop()
    fleet.server.stop()
    #expect(try forget("b").problem != nil)
    fleet.server.resume()
  }
}
