import BreakerRelay
import ProgramKit
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// A writer without a key changes the server's data, and relays put the right things back and go on.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct UnprovenTests {
  private static let key = FleetKey(hexadecimal: String(repeating: "11", count: 32))
  private static let order = CommandKey(hexadecimal: String(repeating: "44", count: 32))
  private let fleet: TestFleet

  init() throws { fleet = try TestFleet() }

  private func host(
    _ name: String, obeys: Bool = false, commands: Bool = false, looks: Duration = .seconds(60)
  ) async throws -> TestHost {
    try await fleet.host(name) {
      $0.lookInterval = looks
      $0.keys = [Self.key].compactMap { $0 }
      if obeys { $0.obeyedKeys = [Self.order?.name].compactMap { $0 } }
      if commands { $0.commandKey = Self.order }
    }
  }

  private func standing(
    of name: String, on other: String, by host: TestHost
  ) throws -> FleetConfirmations.Standing? {
    let text = try StatusClient.ask("confirmations \(name)", of: host)
    return try FleetConfirmations(document: text).commands.first?.hosts
      .first { $0.name == other }?.standing
  }

  private func kept(_ name: String) throws -> String {
    try fleet.server.command("HGET", "sb:{test}:commands", "\(name)\nmode")
  }

  private func keep(_ text: String, for name: String) throws {
    try fleet.server.command("HSET", "sb:{test}:commands", "\(name)\nmode", text)
  }

  private func isTold(by host: TestHost) async throws {
    try await eventually("the server has it") {
      try host.store.fleetStanding()?.waiting == 0
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command whose signature was cut is brought back, and hosts that come follow it`()
    async throws
  {
    let ops = try await host("ops", obeys: true, commands: true)
    let a = try await host("a", obeys: true)
    try ops.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    // The signature of the command key is 128 digits, after eight digits of the key's name.
    let whole = try kept("pay")
    let name = try #require(Self.order?.name.short)
    let parts = whole.split(separator: ":\(name):", maxSplits: 1)
    try keep(
      String(try #require(parts.first)) + (try #require(parts.last)).dropFirst(128), for: "pay")
    // No operator need be there: any relay that knows the command brings it back.
    ops.stop()
    a.stop()
    a.start()
    try await a.awaits(.connected, times: 2)
    let late = try await host("late", obeys: true)
    try await eventually("a host that comes later follows it") {
      try late.snapshot("pay")?.mode == .observe
    }
    #expect(try RelayStatus(document: try StatusClient.ask("figures", of: a)).unproven > 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `an insider without a command key takes no command away`() async throws {
    let ops = try await host("ops", obeys: true, commands: true)
    let a = try await host("a", obeys: true)
    try ops.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("a observes") { try a.snapshot("pay")?.mode == .observe }
    // Its relay lets everything out, with a later stamp.
    let rogue = try await host("rogue")
    try rogue.breaker("pay").force(.forcedOpen, scope: .fleet)
    try await isTold(by: rogue)
    rogue.stop()
    a.stop()
    a.start()
    try await a.awaits(.connected, times: 2)
    let late = try await host("late", obeys: true)
    try await eventually("a host that comes later follows it") {
      try late.snapshot("pay")?.mode == .observe
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command that was kept from a host is not confirmed by it, however many follow`()
    async throws
  {
    let (a, b) = (try await host("a"), try await host("b"))
    b.stop()
    try a.breaker("pay").force(.forcedOpen, scope: .fleet)
    try await isTold(by: a)
    let whole = try kept("pay")
    try fleet.server.command("HDEL", "sb:{test}:commands", "pay\nmode")
    try fleet.server.command("DEL", "sb:{test}:stream")
    b.start()
    try await b.awaits(.connected, times: 2)
    for number in 0..<40 { try a.breaker("other\(number)").force(.observe, scope: .fleet) }
    try await eventually("b has the last one") { try b.snapshot("other39")?.mode == .observe }
    // With an early number, as any writer can give it one.
    let number = whole.split(separator: #""n":"#)
    try keep(number.count == 2 ? number[0] + #""n":1}"# : whole, for: "pay")
    for _ in 0..<30 {
      let isConfirmed = try standing(of: "pay", on: "b", by: a) == .confirmed
      try #require(try !isConfirmed || b.snapshot("pay")?.mode == .forcedOpen)
      try await Task.sleep(for: .milliseconds(100))
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `no forgery makes a host refuse what it has carried out`(isDamaged: Bool) async throws {
    let (a, b) = (try await host("a"), try await host("b"))
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    let connection = try RedisConnection(to: a.options.address, patience: .seconds(60))
    let append = """
      local n = redis.call('INCR', KEYS[2])
      return redis.call('XADD', KEYS[1], '*', 'n', n, unpack(ARGV))
      """
    let keys = ["EVAL", append, "2", "sb:{test}:stream", "sb:{test}:count"]
    if isDamaged {
      // A true command, of which one letter has changed.
      let entries = try connection.ask(["XRANGE", "sb:{test}:stream", "-", "+"]).elements ?? []
      let pairs = entries.last?.elements?.last?.pairs ?? []
      let fields = pairs.filter { $0.field.text != "n" }.flatMap {
        [$0.field.text ?? "", ($0.value.text ?? "").replacing("observe", with: "forced_open")]
      }
      _ = try connection.ask(keys + fields)
    } else {
      let text = #"{"action":"force","mode":"forced_open","by":"x"}"#
      for number in 1...150 {
        _ = try connection.ask(
          keys + [
            "v", "1", "k", "command", "h", "z", "l", "1", "b", "f\(number)", "s", "\(number)",
            "c", text,
          ])
      }
    }
    try a.breaker("last").force(.observe, scope: .fleet)
    try await eventually("b has the last one") { try b.snapshot("last")?.mode == .observe }
    for name in ["pay", "last"] {
      try await eventually("b has confirmed \(name)") {
        try standing(of: name, on: "b", by: a) == .confirmed
      }
      // Nor do the beats that follow say otherwise.
      for _ in 0..<15 {
        try #require(try standing(of: name, on: "b", by: a) == .confirmed)
        try await Task.sleep(for: .milliseconds(100))
      }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a field that was deleted is brought back without any relay connecting again`()
    async throws
  {
    let a = try await host("a", looks: .seconds(2))
    let b = try await host("b", looks: .seconds(2))
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    try fleet.server.command("HDEL", "sb:{test}:commands", "pay\nmode")
    let late = try await host("late")
    try await eventually("a host that comes later follows it") {
      try late.snapshot("pay")?.mode == .observe
    }
    #expect(a.count(.connected) == 1 && b.count(.connected) == 1)
  }
}
