import BreakerRelay
import SharedBreaker
import TestSupport
import Testing

/// Hosts whose way to the server is disturbed, while the server itself is well.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct ServerProxyTests {
  private let fleet: TestFleet
  private let proxy: ServerProxy

  /// The host whose way leads through the proxy.
  private let a: TestHost
  private let b: TestHost

  init() async throws {
    fleet = try TestFleet()
    proxy = try ServerProxy(in: fleet.directory, to: fleet.server.socket)
    a = try await fleet.host("a", address: "unix://\(proxy.path)")
    b = try await fleet.host("b")
  }

  private var hosts: [TestHost] { [a, b] }

  /// Gives a command on each host, to a breaker of its own.
  private func command(_ what: String) throws -> [String] {
    try hosts.map { host in
      let name = "\(what).\(host.options.host)"
      try host.breaker(name).force(.forcedOpen, scope: .fleet)
      return name
    }
  }

  /// Waits until both hosts follow the commands to some breakers, and none waits.
  private func awaitCommands(_ names: [String]) async throws {
    for host in hosts {
      for name in names {
        try await eventually("\(name) is forced open on \(host.options.host)") {
          try host.snapshot(name)?.mode == .forcedOpen
        }
      }
      try await eventually("nothing waits") { try host.store.fleetStanding()?.waiting == 0 }
    }
  }

  /// Opens a breaker on one host that the other one has as well.
  private func open(_ name: String, on host: TestHost) throws {
    for host in hosts { _ = try host.breaker(name, sharedPolicy) }
    try host.breaker(name).trip()
  }

  private func awaitEvidence(_ fields: [String]) async throws {
    try await eventually("the server has the evidence \(fields)") {
      try fleet.server.command("HKEYS", "sb:{test}:evidence").split(separator: "\n").count
        == 2 * fields.count
        && fields.allSatisfy {
          try fleet.server.command("HEXISTS", "sb:{test}:evidence", $0) == "1"
        }
    }
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      ServerProxy.Manner.delay(30), .hold, .lose, .answer(Array("\u{1}what?\r\n".utf8)),
      .answer(Array(":7\r\n".utf8)),
    ])
  func
    `a disturbed connection to the server loses no command, applies none twice and opens nothing`(
      manner: ServerProxy.Manner
    ) async throws
  {
    try open("db", on: a)
    try open("web", on: b)
    try await awaitEvidence(["db\na", "web\nb"])
    var names: [String] = []
    for round in 1...2 {
      let (connections, problems) = (a.count(.connected), a.count(.problem))
      proxy.manner = manner
      names += try command("early.\(round)")
      try open("meanwhile.\(round)", on: a)
      if case .delay = manner {
        try await awaitCommands(names)
      } else {
        try await a.awaits(.problem, times: problems + 1)
      }
      names += try command("late.\(round)")
      proxy.manner = .passOn
      if a.count(.problem) > problems {
        try await a.awaits(.connected, times: connections + 1)
      }
      try await awaitCommands(names)
    }
    // All that earlier connections have said is with the server when only those of now are left,
    // and what each host tells next comes after it.
    try await eventually("earlier connections are gone") { proxy.connections == 2 }
    let last = try command("last")
    try await awaitCommands(last)

    let opened = ["db", "meanwhile.1", "meanwhile.2"]
    try await awaitEvidence(opened.map { "\($0)\na" } + ["web\nb"])
    for host in hosts {
      for name in names + last {
        #expect(try host.store.history(of: name).map(\.change.wireKind) == ["mode"])
      }
    }
    for (names, own, other) in [(opened, a, b), (["web"], b, a)] {
      for name in names {
        #expect(try own.snapshot(name)?.state == .open)
        #expect(try own.store.history(of: name).count == 1)
        #expect(try other.snapshot(name)?.state == .closed)
        #expect(try other.store.history(of: name).isEmpty)
      }
    }
  }
}
