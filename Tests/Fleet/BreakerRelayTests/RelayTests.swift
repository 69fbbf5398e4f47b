import BreakerRelay
import SharedBreaker
import TestSupport
import Testing

/// Hosts of a fleet that learn from each other, over a real server.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct RelayTests {
  @Test(.timeLimit(.minutes(60)))
  func `a command reaches every host once`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b", "c")
    try hosts[0].breaker("pay").force(
      .forcedOpen, for: .seconds(600), reason: "maintenance", scope: .fleet)
    for host in hosts {
      try await eventually("\(host.options.host) is forced open") {
        try host.snapshot("pay")?.mode == .forcedOpen
      }
    }
    let snapshot = try #require(try hosts[1].snapshot("pay"))
    #expect(snapshot.modeReason == "maintenance")
    #expect(snapshot.modeEndsIn.map { $0 > .seconds(300) && $0 <= .seconds(600) } == true)
    try hosts[2].breaker("pay").force(.automatic, scope: .fleet)
    for host in hosts {
      try await eventually("\(host.options.host) is automatic again") {
        try host.snapshot("pay")?.mode == .automatic
      }
      #expect(try host.store.history(of: "pay").count { $0.change.wireKind == "mode" } == 2)
    }
    try await eventually("all is told") {
      try hosts.allSatisfy { try $0.store.fleetStanding()?.waiting == 0 }
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host whose clock was far ahead follows the others again once it is set`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    let (a, b) = (hosts[0], hosts[1])
    try b.breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("a is forced open") { try a.snapshot("pay")?.mode == .forcedOpen }
    a.stop()
    // This is as if the clock had been a year ahead when the command was given, and corrected since.
    let path = try #require(a.options.store)
    let ahead = StoreClock.system.wallTime.millisecondsSince1970 + 31_536_000_000
    _ = try Database.rows(path, "UPDATE fleet SET stamp = \(ahead)")
    try a.give { try $0.breaker("pay").force(.observe, scope: .fleet) }
    for table in ["fleet_command", "fleet_outbox"] {
      _ = try Database.rows(
        path, "UPDATE \(table) SET given_at_ms = \(ahead) WHERE stamp > \(ahead)")
    }
    try a.give { try $0.breaker("mail").force(.observe, scope: .fleet) }
    a.start()
    try await a.awaits(.overtaken)
    #expect(a.log.contains { $0.contains("far ahead") })
    // The command with the wrong clock was given after that of b.
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    try await eventually("b has heard what was given with the right clock") {
      try b.snapshot("mail")?.mode == .observe
    }
    try await eventually("nothing waits") { try a.store.fleetStanding()?.waiting == 0 }
    try b.breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("a follows b") { try a.snapshot("pay")?.mode == .forcedOpen }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a quorum of other hosts makes a closed breaker half-open`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b", "c")
    let breakers = try hosts.map { try $0.breaker("db", sharedPolicy) }
    try breakers[0].trip()
    try breakers[1].trip()
    try await eventually("c suspects") { try hosts[2].snapshot("db")?.state == .halfOpen }
    let reasons = try hosts[2].store.history(of: "db").compactMap(\.reason)
    #expect(reasons.contains("suspected by 2 hosts"))
    #expect(try hosts[0].snapshot("db")?.state == .open)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a breaker that is deleted while it is open is no longer evidence`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b", "c")
    let breakers = try hosts.map { try $0.breaker("db", sharedPolicy) }
    func awaitEvidence(of host: String) async throws {
      try await eventually("the evidence is that of '\(host)'") {
        try fleet.server.command("HKEYS", "sb:{test}:evidence") == host
      }
    }
    try breakers[0].trip()
    try await awaitEvidence(of: "db\na")
    #expect(try hosts[0].store.delete("db"))
    try await awaitEvidence(of: "")
    try breakers[1].trip()
    try await awaitEvidence(of: "db\nb")
    // The relays tell in order, and c hears this one last.
    try hosts[1].breaker("last").force(.observe, scope: .fleet)
    try await eventually("c has heard") { try hosts[2].snapshot("last")?.mode == .observe }
    #expect(try hosts[2].snapshot("db")?.state == .closed)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the success of a host that was only suspected is not a recovery`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b", "c")
    let breakers = try hosts.map { try $0.breaker("db", sharedPolicy) }
    for breaker in breakers[..<2] {
      #expect(throws: Outage.self) { try breaker.run { throw Outage() } }
    }
    try await eventually("c suspects") { try hosts[2].snapshot("db")?.state == .halfOpen }
    try await breakers[2].run {}
    #expect(try hosts[2].snapshot("db")?.state == .closed)
    // Any message of c about the breaker comes before the second of these.
    for name in ["later", "last"] {
      try hosts[2].breaker(name).force(.observe, scope: .fleet)
      try await eventually("a has heard") { try hosts[0].snapshot(name)?.mode == .observe }
    }
    let stream = try fleet.server.command("XRANGE", "sb:{test}:stream", "-", "+")
    #expect(!stream.contains("recovered"))
    #expect(try hosts[0].snapshot("db")?.openEndsIn.map { $0 > .seconds(600) } == true)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a recovery on one host makes the breakers of the others due`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    let breakers = try hosts.map { try $0.breaker("db", sharedPolicy) }
    #expect(throws: Outage.self) { try breakers[1].run { throw Outage() } }
    #expect(try hosts[1].snapshot("db")?.openEndsIn.map { $0 > .seconds(600) } == true)
    try breakers[0].trip(for: .milliseconds(1))
    try await eventually("a's probe is due") { try hosts[0].snapshot("db")?.isProbeDue == true }
    try await breakers[0].run {}
    try await eventually("b's probe is due") { try hosts[1].snapshot("db")?.isProbeDue == true }
    let entries = try hosts[1].store.history(of: "db")
    #expect(entries.contains { $0.change == .recovery && $0.host == "a" })
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command is passed on when the server is back`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    fleet.server.kill()
    for host in hosts { try await host.awaits(.problem) }
    try hosts[0].breaker("pay").force(.observe, scope: .fleet)
    #expect(try hosts[0].store.fleetStanding()?.waiting == 1)
    // The relay notes what it has reported.
    try await eventually("a knows") { try hosts[0].store.fleetStanding()?.isConnected == false }
    try fleet.server.start()
    try await eventually("b observes") { try hosts[1].snapshot("pay")?.mode == .observe }
    try await eventually("nothing waits") { try hosts[0].store.fleetStanding()?.waiting == 0 }
    // It notes that it is connected after it has passed on what waited.
    try await eventually("a is connected") {
      try hosts[0].store.fleetStanding()?.isConnected == true
    }
  }
}

struct Outage: Error {}
