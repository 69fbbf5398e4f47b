@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Commands to a whole fleet, as the host that gives them keeps them.
@Suite struct FleetCommandTests {
  @Test func `a command to the fleet changes this host at once and waits for the relay`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let api = try store.breaker("api")
    // The other hosts need not learn of a command that the next one overtakes.
    try api.reset(scope: .fleet)
    try api.trip(for: .seconds(60), reason: "drill", scope: .fleet)
    try api.force(.observe, for: .seconds(90), reason: "look", scope: .fleet)
    try api.overridePolicy(set: [.openFor: "5m"], unset: [.jitter], scope: .fleet)
    let snapshot = api.snapshot()
    #expect(snapshot.state == .open)
    #expect(snapshot.mode == .observe)
    #expect(snapshot.policy.openFor == .seconds(300))
    stage.clock.advance(by: .seconds(7))
    let pending = try relay.pendingCommands()
    #expect(
      pending.map(\.command.action) == [
        .trip(for: .seconds(60)), .force(.observe, for: .seconds(90)),
        .policy(set: [.openFor: "5m"], unset: [.jitter]),
      ])
    let first = try #require(pending.first).command.stamp
    // A stamp is the time, but no stamp is given twice.
    #expect(first == 1_800_000_000_001)
    #expect(pending.map { $0.command.stamp - first } == [0, 1, 2])
    #expect(pending.map(\.command.reason) == ["drill", "look", nil])
    let isAlike = pending.allSatisfy { one in
      one.command.name == "api" && one.command.host == "a" && one.command.age == .seconds(7)
        && one.command.author == snapshot.modeSetBy
    }
    #expect(isAlike)
    #expect(try store.history(of: "api").allSatisfy { $0.host == nil })
    #expect(try store.fleetStanding()?.waiting == 3)
    #expect(try relay.pendingCommands(limit: 2) == Array(pending.prefix(2)))
    try relay.published(pending[...1].map(\.id))
    #expect(try relay.pendingCommands() == [pending[2]])
    // Only the latest command about each aspect is told again.
    #expect(
      try relay.commands().map { Array($0.byAspect.keys) } == [
        ["mode"], ["policy:jitter"], ["policy:open-for"], ["state"],
      ])
    #expect(try relay.commands().map { $0.stamp - first } == [1, 2, 2, 0])
  }

  @Test func `many breakers are reset at once, here and in the fleet`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let names = (0..<1_100).map { "api.\($0)" }
    #expect(throws: BreakerError.self) { try store.reset(names, scope: .fleet) }
    #expect(throws: BreakerError.self) { try store.reset(["ok", ""]) }
    #expect(try store.snapshots().isEmpty)
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let open = try store.breaker("api.7")
    try open.trip(for: .seconds(60), scope: .fleet)
    try store.reset(names, reason: "drill", scope: .fleet)
    #expect(open.snapshot().state == .closed)
    let pending = try relay.pendingCommands(limit: .max).map(\.command)
    // The trip is overtaken.
    #expect(pending.map(\.name) == names && pending.allSatisfy { $0.action == .reset })
    #expect(Set(pending.map(\.stamp)).count == names.count)
    #expect(pending.allSatisfy { $0.reason == "drill" })
    #expect(try store.fleetStanding()?.waiting == names.count)
    #expect(try store.history(of: "api.7").last?.reason == "drill")
    try store.reset([])
    try store.reset(["api.7"])
    #expect(try store.fleetStanding()?.waiting == names.count)
  }

  @Test func `a command keeps the seals that its host has given it`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    var command = FleetCommand(
      name: "api", action: .policy(set: [.probes: "2", .openFor: "5m"], unset: []), author: "ann",
      host: "b", stamp: 5, age: .zero,
      seals: ["policy:probes": "1:k:x", "policy:open-for": "1:k:y"])
    _ = try relay.apply([.command(command)], position: nil)
    func kept() throws -> [String: String] {
      try relay.commands().reduce(into: [:]) { $0.merge($1.seals) { first, _ in first } }
    }
    #expect(try kept() == command.seals)
    command.seals = ["policy:probes": "2:l:z", "policy:open-for": "2:l:w"]
    #expect(try relay.apply([.command(command)], position: nil) == [.overtaken])
    #expect(try kept() == command.seals)
    #expect(try store.fleetCommands(to: "api").allSatisfy { $0.command.seals.count == 1 })
  }

  @Test func `a command to the fleet is refused while no relay works, and changes nothing`() throws
  {
    let stage = try Stage()
    let store = stage.sharedStore()
    let api = try store.breaker("api")
    let commands: [() throws -> Void] = [
      { try api.trip(scope: .fleet) }, { try api.reset(scope: .fleet) },
      { try api.force(.observe, scope: .fleet) },
      { try api.overridePolicy(set: [.probes: "2"], scope: .fleet) },
    ]
    for command in commands {
      #expect(throws: BreakerError.noRelay(name: "api")) { try command() }
    }
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    relay.release()
    for command in commands {
      #expect(throws: BreakerError.noRelay(name: "api")) { try command() }
    }
    #expect(try store.names() == [])
    #expect(try store.history() == [])
    #expect("\(BreakerError.noRelay(name: "api"))".contains("start cbrelay"))
  }

  @Test func `a command whose policy is not valid is not given`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let api = try store.breaker("api")
    #expect(throws: BreakerError.self) {
      try api.overridePolicy(set: [.within: "1m"], scope: .fleet)
    }
    #expect(try relay.pendingCommands() == [])
    #expect(try relay.commands() == [])
  }

  @Test func `a command that changes nothing here leaves an entry, which wakes the relay`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let api = try store.breaker("api")
    try api.overridePolicy(set: [.probes: "2"])
    try api.overridePolicy(set: [.probes: "2"], scope: .fleet)
    let changes = try store.history(of: "api").map(\.change)
    #expect(
      changes == [.policy(from: "", to: "probes=2"), .policy(from: "probes=2", to: "probes=2")])
    #expect(try relay.pendingCommands().count == 1)
  }

  @Test func `commands keep their order and their age over a reboot`() throws {
    let stage = try Stage()
    let relay = try #require(try stage.sharedStore().claimRelay(fleet: "prod", host: "a"))
    try stage.sharedStore().breaker("api").force(.forcedOpen, for: .seconds(600), scope: .fleet)
    relay.release()
    stage.clock.advance(by: .seconds(10))
    stage.clock.reboot(after: .seconds(20))
    let next = try #require(try stage.sharedStore().claimRelay(fleet: "prod", host: "a"))
    #expect(try next.pendingCommands().map(\.command.age) == [.seconds(30)])
    #expect(try next.commands().map(\.age) == [.seconds(30)])
    try stage.sharedStore().breaker("api").reset(scope: .fleet)
    #expect(
      try next.pendingCommands().map(\.command.stamp) == [1_800_000_000_000, 1_800_000_030_000])
  }

  @Test func `a host that has used up the stamps gives no command to the fleet`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let last = FleetCommand(
      name: "other", action: .reset, author: "ann", host: "b", stamp: FleetCommand.highestStamp,
      age: .zero)
    #expect(try relay.apply([.command(last)], position: nil) == [.noBreaker])
    let api = try store.breaker("api")
    #expect(throws: BreakerError.self) { try api.trip(scope: .fleet) }
    #expect(api.state == .closed)
    #expect(try relay.pendingCommands() == [])
    #expect(try store.history(of: "api") == [])
    try api.trip()
    #expect(api.state == .open)
  }
}
