import BreakerStore
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Which process is the relay of a store, and what it notes there.
@Suite struct RelayClaimTests {
  @Test func `one process at a time is the relay of a store`() throws {
    let stage = try Stage()
    let puppets = try (0..<2).map { _ in try stage.puppet() }
    let store = stage.sharedStore()
    #expect(try store.fleetStanding() == nil)
    #expect(try puppets[0].ask("claim prod a") == "ok")
    #expect(try puppets[1].ask("claim prod a") == "taken")
    #expect(try store.claimRelay(fleet: "prod", host: "a") == nil)
    #expect(try store.fleetStanding()?.isRelayRunning == true)
    #expect(try puppets[1].ask("fleet trip") == "ok")
    // The lock ends with its holder.
    puppets[0].kill()
    #expect(try store.fleetStanding()?.isRelayRunning == false)
    #expect(try puppets[1].ask("claim prod b") == "ok")
    #expect(try store.fleetStanding()?.host == "b")
    #expect(try store.fleetStanding()?.waiting == 1)
    #expect(try puppets[1].ask("release") == "ok")
    #expect(try store.claimRelay(fleet: "prod", host: "b") != nil)
  }

  @Test func `a standing says what the relay has noted`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let first = try #require(try store.fleetStanding())
    #expect(first.fleet == "prod")
    #expect(first.host == "a")
    #expect(first.isRelayRunning)
    #expect(!first.isConnected)
    #expect(first.changedAt == nil)
    #expect(first.problem == nil)
    #expect(first.position == nil)
    #expect(first.waiting == 0)
    try relay.note(isConnected: true, problem: nil)
    let noted = stage.clock.clock.wallTime
    stage.clock.advance(by: .seconds(5))
    try relay.note(isConnected: true, problem: nil)
    #expect(try store.fleetStanding()?.isConnected == true)
    #expect(try store.fleetStanding()?.changedAt == noted)
    try relay.note(isConnected: false, problem: "connection refused")
    #expect(try store.fleetStanding()?.problem == "connection refused")
    try relay.note(isConnected: true, problem: nil)
    relay.release()
    relay.release()
    #expect(try store.fleetStanding()?.isConnected == false)
  }

  @Test func `a relay that has only begun is not connected, whatever an earlier one was`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let first = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    try first.note(isConnected: true, problem: nil)
    first.release()
    let second = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    #expect(try store.fleetStanding()?.isRelayRunning == true)
    #expect(try store.fleetStanding()?.isConnected == false)
    try second.note(isConnected: true, problem: nil)
    #expect(try store.fleetStanding()?.isConnected == true)
  }

  @Test func `a host knows its fleet's latest commands to a breaker, and which wait`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    let api = try store.breaker("api")
    try api.force(.observe, scope: .fleet)
    try relay.published(try relay.pendingCommands().map(\.id))
    try api.overridePolicy(set: [.probes: "2"], unset: [.jitter], scope: .fleet)
    let pending = try relay.pendingCommands()
    try relay.published([], refusing: [pending[0].id: "the clock"])
    let known = try store.fleetCommands(to: "api")
    #expect(Set(known.map(\.aspect)) == ["policy:probes", "policy:jitter", "mode"])
    #expect(known.last?.aspect == "mode" && known.last?.isWaiting == false)
    #expect(known.prefix(2).allSatisfy { $0.isWaiting && $0.refusal == "the clock" })
    #expect(try relay.pendingCommands().map(\.refusal) == ["the clock"])
    #expect(try store.fleetStanding()?.refused == 1)
    #expect(try store.fleetStanding()?.refusal == "the clock")
    #expect(try relay.withdrawals() == 0)
    #expect(try store.withdrawCommands(to: "api").map(\.stamp) == [pending[0].command.stamp])
    #expect(try relay.withdrawals() == 1)
    #expect(try store.fleetCommands(to: "api").map(\.aspect) == ["mode"])
    #expect(try store.snapshot(of: "api")?.policy.probes == 2)
    #expect(try store.fleetStanding()?.waiting == 0)
    #expect(try relay.unfollowedCommands() == [])
  }

  @Test func `a store belongs to one fleet until it leaves it`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    #expect(try !store.leaveFleet())
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    try store.breaker("api").force(.observe, scope: .fleet)
    let error = #expect(throws: StoreError.self) { try store.leaveFleet() }
    #expect(error?.kind == .busy)
    relay.release()
    #expect(throws: StoreError.self) { try store.claimRelay(fleet: "test", host: "a") }
    // The refused claim did not keep the lock.
    #expect(try store.fleetStanding()?.isRelayRunning == false)
    #expect(try store.leaveFleet())
    #expect(try store.fleetStanding() == nil)
    #expect(try store.snapshot(of: "api")?.mode == .observe)
    let other = try #require(try store.claimRelay(fleet: "test", host: "a"))
    #expect(try other.commands() == [])
    #expect(try other.pendingCommands() == [])
    #expect(throws: BreakerError.noRelay(name: "api")) {
      other.release()
      try store.breaker("api").reset(scope: .fleet)
    }
  }

  @Test func `a fleet or a host with no usable name is refused`() throws {
    let stage = try Stage()
    for (fleet, host) in [("", "a"), ("prod", ""), ("a\nb", "a"), ("prod", "a\u{7}")] {
      #expect(throws: StoreError.self) {
        try stage.sharedStore().claimRelay(fleet: fleet, host: host)
      }
    }
    #expect(try stage.sharedStore().fleetStanding() == nil)
  }
}
