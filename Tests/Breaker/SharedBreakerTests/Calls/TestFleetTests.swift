@_spi(Relay) import SharedBreaker
import SharedBreakerTesting
import Testing

/// A fleet of test hosts, between which the test passes the news as a relay would.
@Suite struct TestFleetTests {
  @Test func `hosts in memory can play a fleet`() throws {
    let hosts = [TestHost(), TestHost()]
    let stores = hosts.map { $0.store() }
    let relays = try zip(stores, ["a", "b"]).map { store, name in
      try #require(try store.claimRelay(fleet: "prod", host: name))
    }
    let policy = BreakerPolicy(
      maxFailures: 1, fleetQuorum: .hosts(1), fleetSpread: .seconds(1))
    let breakers = try stores.map { try $0.breaker("api", policy: policy) }
    _ = try breakers[0].acquire().fail()
    #expect(try relays[1].apply([.suspicion(name: "api", hosts: 1)], position: nil) == [.applied])
    let probe = try breakers[1].acquire()
    let kind = probe.kind
    #expect(kind == .probe)
    _ = probe.succeed()
    #expect(
      try relays[0].apply([.recovery(name: "api", host: "b")], position: nil) == [.applied])
    hosts[0].clock.advance(by: .seconds(1))
    #expect(try breakers[0].acquire().kind == .probe)
    #expect(try stores[0].history(of: "api").last { $0.host == "b" }?.change == .recovery)

    try breakers[0].force(.forcedOpen, for: .seconds(60), reason: "drill", scope: .fleet)
    hosts[0].clock.advance(by: .seconds(5))
    let pending = try relays[0].pendingCommands()
    let news = pending.map { FleetNews.command($0.command) }
    #expect(try relays[1].apply(news, position: nil) == [.applied])
    #expect(try relays[1].apply(news, position: nil) == [.overtaken])
    #expect(breakers[1].snapshot().modeEndsIn == .seconds(55))
    try relays[0].published([pending[0].id])
    #expect(try stores[0].fleetStanding()?.waiting == 0)
    #expect(try relays[0].pendingCommands() == [])
    #expect(try relays[0].commands() == pending.map(\.command))
    #expect(try stores[0].lineage() != stores[1].lineage())
  }

  @Test func `a killed process is no longer the relay`() throws {
    let host = TestHost()
    let process = host.process()
    let relay = try #require(try process.store().claimRelay(fleet: "prod", host: "a"))
    #expect(try host.store().claimRelay(fleet: "prod", host: "a") == nil)
    process.kill()
    #expect(try host.store().fleetStanding()?.isRelayRunning == false)
    let next = try #require(try host.store().claimRelay(fleet: "prod", host: "a"))
    // The end of the old claim does not end the new one.
    relay.release()
    #expect(try host.store().fleetStanding()?.isRelayRunning == true)
    #expect(throws: StoreError.self) { try host.store().leaveFleet() }
    next.release()
    #expect(try host.store().leaveFleet())
    #expect(try host.store().fleetStanding() == nil)
  }

  @Test func `a test host keeps the age of commands over a reboot`() throws {
    let host = TestHost()
    let relay = try #require(try host.store().claimRelay(fleet: "prod", host: "a"))
    try host.store().breaker("api").force(.observe, scope: .fleet)
    relay.release()
    host.clock.advance(by: .seconds(3))
    host.reboot(after: .seconds(4))
    let next = try #require(try host.store().claimRelay(fleet: "prod", host: "a"))
    #expect(try next.pendingCommands().map(\.command.age) == [.seconds(7)])
    #expect(try next.commands().map(\.age) == [.seconds(7)])
  }

  @Test func `no process can become the relay of a store that fails`() throws {
    let host = TestHost()
    let relay = try #require(try host.store().claimRelay(fleet: "prod", host: "a"))
    host.failStore(with: .diskFull)
    #expect(throws: StoreError.self) { try relay.note(isConnected: true, problem: nil) }
    host.failStore()
    #expect(throws: StoreError.self) { try relay.commands() }
    #expect(throws: BreakerError.self) { try host.store().breaker("api").trip(scope: .fleet) }
  }
}
