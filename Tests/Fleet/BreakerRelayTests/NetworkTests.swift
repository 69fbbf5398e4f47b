import SharedBreaker
import TestSupport
import Testing

/// Hosts with networks of their own, which can be cut off.
@Suite(
  .enabled(if: RedisServer.isInstalled, "redis-server is not installed"),
  .enabled(if: HostNetwork.isPermitted, "needs root and iproute2, to make networks"))
struct NetworkTests {
  @Test(.timeLimit(.minutes(60)))
  func `a host whose network loses everything continues on its own and catches up`() async throws {
    let network = try HostNetwork(["a", "b", "c"])
    let directory = try TemporaryDirectory()
    let server = try RedisServer(
      in: directory,
      options: ["--port", "6379", "--bind", network.address, "--protected-mode", "no"],
      launcher: network.launcher())
    var relays: [Child] = []
    var stores: [SharedStore] = []
    for host in ["a", "b", "c"] {
      let path = directory.file("\(host).db")
      let words =
        network.launcher(host) + [
          BuiltProducts.path(of: "cbrelay"), "--redis", "redis://\(network.address)", "--fleet",
          "test", "--host", host, "--store", path,
        ]
      let relay = try Child(words[0], Array(words.dropFirst()), hasWords: true)
      relays.append(relay)
      #expect(try relay.line()?.contains("started") == true)
      #expect(try relay.line()?.contains("connected to redis://\(network.address)") == true)
      stores.append(SharedStore(path: path))
    }
    try stores[0].breaker("pay").force(.observe, scope: .fleet)
    for store in stores {
      try await eventually("all observe") { try store.snapshot(of: "pay")?.mode == .observe }
      _ = try store.breaker("db", policy: sharedPolicy)
    }

    try network.cut("b")
    try await eventually("b notices") { try stores[1].fleetStanding()?.isConnected == false }
    try stores[0].breaker("pay").force(.forcedOpen, scope: .fleet)
    try stores[0].breaker("db").trip()
    try stores[2].breaker("db").trip()
    try await eventually("c is forced open") {
      try stores[2].snapshot(of: "pay")?.mode == .forcedOpen
    }
    try stores[1].breaker("mail").force(.observe, scope: .fleet)
    // It has heard nothing, so it goes on as before.
    #expect(try stores[1].snapshot(of: "pay")?.mode == .observe)
    #expect(try stores[1].snapshot(of: "db")?.state == .closed)
    #expect(try stores[1].fleetStanding()?.waiting == 1)

    try network.join("b")
    try await eventually("b has heard of the command") {
      try stores[1].snapshot(of: "pay")?.mode == .forcedOpen
    }
    try await eventually("b suspects") { try stores[1].snapshot(of: "db")?.state == .halfOpen }
    for store in stores {
      try await eventually("all have heard of b's") {
        try store.snapshot(of: "mail")?.mode == .observe
      }
      #expect(try store.history(of: "pay").count { $0.change.wireKind == "mode" } == 2)
      #expect(try store.history(of: "mail").count { $0.change.wireKind == "mode" } == 1)
    }
    #expect(try server.command("PING") == "PONG")
  }
}
