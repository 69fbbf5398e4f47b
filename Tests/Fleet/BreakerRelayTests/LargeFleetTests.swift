import BreakerRelay
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Fleets of many hosts, and fleets that are split.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct LargeFleetTests {
  @Test(.timeLimit(.minutes(60)))
  func `twenty hosts obey a command once, probe once each, and recover together`() async throws {
    let fleet = try TestFleet()
    var hosts: [TestHost] = []
    for number in 0..<20 { hosts.append(try await fleet.host("host-\(number)")) }
    let policy = BreakerPolicy(
      maxFailures: 1, openFor: .seconds(3_600), fleetQuorum: .hosts(3),
      fleetSpread: .milliseconds(10))
    let breakers = try hosts.map { try $0.breaker("db", policy) }

    try breakers[0].force(.observe, reason: "a drill", scope: .fleet)
    try await allOf(hosts, "observe") { $0.mode == .observe }
    try breakers[19].force(.automatic, scope: .fleet)
    try await allOf(hosts, "are automatic") { $0.mode == .automatic }
    for host in hosts {
      #expect(try host.store.history(of: "db").count { $0.change.wireKind == "mode" } == 2)
    }

    for breaker in breakers[..<3] {
      #expect(throws: Outage.self) { try breaker.run { throw Outage() } }
    }
    try await allOf(hosts[3...], "suspect") { $0.state == .halfOpen }
    var probes = 0
    for breaker in breakers[3...] {
      for _ in 0..<5 {
        _ = try? await breaker.run {
          probes += 1
          throw Outage()
        }
      }
    }
    #expect(probes == 17)
    try await allOf(hosts, "are open") { $0.state == .open }

    try breakers[0].trip(for: .milliseconds(1))
    try await allOf(hosts[...0], "are due") { $0.isProbeDue }
    try await breakers[0].run {}
    try await allOf(hosts[1...], "are due") { $0.isProbeDue }
    for breaker in breakers[1...] { try await breaker.run {} }
    // A message about an opening may come after a host has closed, which costs it one more probe.
    for breaker in breakers {
      try await eventually("\(breaker.name) is closed") {
        if breaker.snapshot().state == .halfOpen { try? breaker.run {} }
        return breaker.snapshot().state == .closed
      }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the half of a fleet that is cut off continues on its own and catches up`() async throws {
    let fleet = try TestFleet()
    let way = fleet.directory.file("far.sock")
    try lay(way, to: fleet.server)
    var near: [TestHost] = []
    var far: [TestHost] = []
    for number in 0..<3 {
      near.append(try await fleet.host("near-\(number)"))
      far.append(try await fleet.host("far-\(number)", address: "unix://\(way)"))
    }
    let policy = BreakerPolicy(maxFailures: 1, openFor: .seconds(3_600), fleetQuorum: .hosts(2))
    let breakers = try (near + far).map { try $0.breaker("db", policy) }

    Files.removeAll(way)
    try fleet.server.command("CLIENT", "KILL", "TYPE", "normal")
    for host in far { try await host.awaits(.problem) }
    try near[0].breaker("pay").force(.forcedOpen, reason: "near", scope: .fleet)
    try far[0].breaker("mail").force(.observe, reason: "far", scope: .fleet)
    for breaker in breakers[..<2] {
      #expect(throws: Outage.self) { try breaker.run { throw Outage() } }
    }
    try await allOf(near, of: "pay", "are forced open") { $0.mode == .forcedOpen }
    try await allOf(near[2...], "suspect") { $0.state == .halfOpen }
    for host in far {
      #expect(try host.snapshot("db")?.state == .closed)
      #expect(try host.snapshot("pay") == nil)
    }
    #expect(try far[1].snapshot("mail") == nil)

    try lay(way, to: fleet.server)
    try await allOf(near + far, of: "pay", "are forced open") { $0.mode == .forcedOpen }
    try await allOf(near + far, of: "mail", "observe") { $0.mode == .observe }
    try await allOf(far, "suspect") { $0.state == .halfOpen }
    for host in near + far {
      #expect(try host.store.history(of: "pay").count == 1)
      #expect(try host.store.history(of: "mail").count == 1)
    }
  }

  private func lay(_ way: String, to server: RedisServer) throws {
    guard unsafe symlink(server.socket, way) == 0 else { throw SupportError("symlink", errno) }
  }

  private func allOf(
    _ hosts: some Sequence<TestHost>, of name: String = "db", _ what: String,
    _ condition: (BreakerSnapshot) -> Bool
  ) async throws {
    for host in hosts {
      try await eventually("\(host.options.host) and all others \(what)") {
        try host.snapshot(name).map(condition) ?? false
      }
    }
  }
}
