import BreakerRelay
import SharedBreaker
import TestSupport
import Testing

/// Holds that hosts of a fleet share, over a real server.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct FleetHoldTests {
  private static let policy = BreakerPolicy(fleetHold: true)
  private static let hour = Duration.seconds(3_600)
  private static let key = FleetKey(hexadecimal: String(repeating: "11", count: 32))
  private let fleet: TestFleet

  init() throws { fleet = try TestFleet() }

  private func evidence() throws -> String {
    try fleet.server.command("HKEYS", "sb:{test}:evidence")
  }

  private func isHeld(_ host: TestHost, _ name: String = "llm") throws -> Bool {
    try host.snapshot(name)?.rejection?.cause == .held
  }

  /// Waits until a host has heard all that another one has told before.
  private func hears(_ host: TestHost, _ mark: String, from other: TestHost) async throws {
    try other.breaker(mark).force(.observe, scope: .fleet)
    try await eventually("\(host.options.host) has heard \(mark)") {
      try host.snapshot(mark)?.mode == .observe
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a hold is in force on every host, and only the host that was told it tells it`()
    async throws
  {
    let hosts = try await fleet.hosts("a", "b", "c")
    for host in hosts { _ = try host.breaker("llm", Self.policy) }
    try await hosts[0].breaker("llm").acquire().report(.hold(for: Self.hour, reason: "HTTP 429"))
    for host in hosts {
      try await eventually("\(host.options.host) holds") { try isHeld(host) }
    }
    let hold = try #require(try hosts[2].snapshot("llm")?.hold)
    #expect(hold.host == "a" && hold.setBy == "host a" && hold.reason == "HTTP 429")
    #expect(hold.endsIn > .seconds(3_000) && hold.endsIn <= Self.hour)
    #expect(try hosts[0].snapshot("llm")?.hold?.host == nil)
    let entry = try #require(try hosts[1].store.history(of: "llm").last)
    #expect(entry.host == "a" && entry.reason == "HTTP 429: held for 1h, told by a")
    #expect(try hosts[1].snapshot("llm")?.totals.holds == 0)
    // Neither hears b of itself, nor after a connect of its own.
    hosts[1].stop()
    hosts[1].start()
    try await hosts[1].awaits(.connected, times: 2)
    try await hears(hosts[2], "later", from: hosts[1])
    #expect(try evidence() == "llm\na\nhold")
    #expect(try hosts[2].snapshot("llm")?.hold?.host == "a")
    // A breaker with another policy neither hears a hold nor tells one.
    _ = try hosts[0].breaker("own", Self.policy)
    try hosts[1].breaker("own", BreakerPolicy()).hold(for: Self.hour)
    try hosts[0].breaker("own").hold(for: Self.hour + Self.hour)
    try await eventually("a has told it") { try evidence().contains("own\na\nhold") }
    try await hears(hosts[1], "last", from: hosts[0])
    #expect(try hosts[1].snapshot("own")?.hold.map { $0.endsIn <= Self.hour } == true)
    #expect(try !evidence().contains("own\nb"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a host that was away learns a hold, and is held for no longer than hold-max`() async throws
  {
    let (a, b) = (try await fleet.host("a"), try await fleet.host("b"))
    _ = try a.breaker("llm", Self.policy)
    _ = try b.breaker("llm", BreakerPolicy(holdMax: .seconds(600), fleetHold: true))
    b.stop()
    try a.breaker("llm").hold(for: Self.hour, isOperators: true)
    try await eventually("a has told it") { try evidence() == "llm\na\nhold" }
    b.start()
    try await eventually("b holds") { try isHeld(b) }
    let hold = try #require(try b.snapshot("llm")?.hold)
    #expect(hold.askedFor.map { $0 > .seconds(3_000) && $0 <= Self.hour } == true)
    #expect(hold.endsIn <= .seconds(600) && hold.length == .seconds(600))
    #expect(try a.snapshot("llm")?.hold?.askedFor == nil)
    // The server has lost it, and its host has it still.
    fleet.server.kill()
    try fleet.server.start()
    try await eventually("a has told it again") { try evidence() == "llm\na\nhold" }
  }

  @Test(.timeLimit(.minutes(60)))
  func `ending a hold ends it on every host, and no host believes an older one`() async throws {
    let (a, b, c) = (
      try await fleet.host("a"), try await fleet.host("b"), try await fleet.host("c")
    )
    for host in [a, b, c] { _ = try host.breaker("llm", Self.policy) }
    try a.breaker("llm").hold(for: Self.hour)
    for host in [b, c] {
      try await eventually("\(host.options.host) holds") { try isHeld(host) }
    }
    c.stop()
    #expect(try b.breaker("llm").endHold(reason: "paid", scope: .fleet))
    try await eventually("a holds no call") { try a.snapshot("llm")?.hold == nil }
    let entry = try #require(try a.store.history(of: "llm").last)
    #expect(entry.host == "b" && entry.reason?.hasPrefix("paid, after ") == true)
    // The server has the hold of a still, which c and a new host read after the command.
    #expect(try evidence() == "llm\na\nhold")
    c.start()
    try await eventually("c holds no call") { try c.snapshot("llm")?.hold == nil }
    let d = try await fleet.host("d")
    _ = try d.breaker("llm", Self.policy)
    d.stop()
    d.start()
    try await d.awaits(.connected, times: 2)
    try await hears(d, "later", from: a)
    for host in [a, b, c, d] { #expect(try !isHeld(host)) }
    // A later wish of the resource counts, though it is shorter.
    try a.breaker("llm").hold(for: .seconds(1_800))
    for host in [b, c, d] {
      try await eventually("\(host.options.host) holds again") { try isHeld(host) }
    }
    #expect(try d.snapshot("llm")?.hold?.endsIn ?? Self.hour <= .seconds(1_800))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a hold that was ended on one host does not come back to it`() async throws {
    let a = try await fleet.host("a")
    let b = try await fleet.host("b") { $0.lookInterval = .milliseconds(100) }
    for host in [a, b] { _ = try host.breaker("llm", Self.policy) }
    try a.breaker("llm").hold(for: Self.hour)
    try await eventually("b holds") { try isHeld(b) }
    // A relay knows the server's clock to a part of a second.
    try await eventually("it has lasted for a while") {
      try a.snapshot("llm")?.hold.map { $0.endsIn < Self.hour - .seconds(2) } == true
    }
    #expect(try b.breaker("llm").endHold())
    b.stop()
    b.start()
    try await b.awaits(.connected, times: 2)
    try await hears(b, "later", from: a)
    #expect(try !isHeld(b))
    #expect(try isHeld(a))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a hold that is prolonged without an entry of the history is told`() async throws {
    let (a, b) = (try await fleet.host("a"), try await fleet.host("b"))
    for host in [a, b] { _ = try host.breaker("llm", Self.policy) }
    try a.breaker("llm").hold(for: .seconds(3_000))
    try await eventually("b holds") { try isHeld(b) }
    try a.breaker("llm").hold(for: Self.hour)
    #expect(try a.store.history(of: "llm").count { $0.change == .hold(.began) } == 1)
    #expect(try a.store.history(of: "llm").count { $0.change == .hold(.prolonged) } == 0)
    try await eventually("b holds for longer") {
      try b.snapshot("llm")?.hold.map { $0.endsIn > .seconds(3_100) } == true
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `with a key, only a signed hold counts`() async throws {
    func host(_ name: String) async throws -> TestHost {
      try await fleet.host(name) { $0.keys = [Self.key].compactMap { $0 } }
    }
    let (a, b) = (try await host("a"), try await host("b"))
    for host in [a, b] {
      for name in ["llm", "lie"] { _ = try host.breaker(name, Self.policy) }
    }
    let now = StoreClock.system.wallTime.millisecondsSince1970
    let script = """
      local n = redis.call('INCR', KEYS[2])
      return redis.call('XADD', KEYS[1], '*', 'n', n, unpack(ARGV))
      """
    try fleet.server.command(
      "EVAL", script, "2", "sb:{test}:stream", "sb:{test}:count", "v", "1", "k", "hold", "h", "z",
      "l", "1", "b", "lie", "g", "1", "r", "60000", "a", "0", "e", "0", "w", "")
    try fleet.server.command(
      "HSET", "sb:{test}:evidence", "lie\nz\nhold", "1 1 \(now + 60_000)\n60000 0 0\n")
    try a.breaker("llm").hold(for: Self.hour, reason: "quota")
    try await eventually("b holds") { try isHeld(b) }
    #expect(try !isHeld(b, "lie") && !isHeld(a, "lie"))
    // From the state too, what is signed counts, and nothing else.
    let c = try await host("c")
    for name in ["llm", "lie"] { _ = try c.breaker(name, Self.policy) }
    c.stop()
    c.start()
    try await eventually("c holds") { try isHeld(c) }
    #expect(try c.snapshot("llm")?.hold?.reason == "quota")
    #expect(try !isHeld(c, "lie"))
    // A text that was signed and then changed counts no more.
    let kept = try fleet.server.command("HGET", "sb:{test}:evidence", "llm\na\nhold")
    let d = try await host("d")
    try fleet.server.command("HSET", "sb:{test}:evidence", "llm\na\nhold", kept + "!")
    _ = try d.breaker("llm", Self.policy)
    d.stop()
    d.start()
    try await d.awaits(.connected, times: 2)
    #expect(try !isHeld(d))
  }
}
