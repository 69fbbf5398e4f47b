import BreakerRelay
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// The answers of a relay at its socket.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct RelayStatusTests {
  @Test(.timeLimit(.minutes(60)))
  func `the status has every host and what the fleet knows of its breakers`() async throws {
    let fleet = try TestFleet()
    let hosts = try await fleet.hosts("a", "b")
    try hosts[1].breaker("db", sharedPolicy).trip(for: .seconds(600))
    _ = try hosts[1].breaker("private", BreakerPolicy())
    try await eventually("a knows of b's breaker") {
      let document = try StatusClient.ask("status", of: hosts[0])
      return document.contains(
        #"{"name":"db","state":"open","mode":"automatic","open_ends_in_ms":"#)
    }
    let document = try StatusClient.ask("status", of: hosts[0])
    #expect(
      document.hasPrefix(#"{"version":1,"fleet":"test","host":"a","connected":true,"since":"2"#))
    #expect(!document.contains("private"))
    let figures = try StatusClient.ask("figures", of: hosts[0])
    #expect(figures.contains(#"{"host":"b","silent_ms":"#))
    #expect(!figures.contains("breakers"))
    #expect(try StatusClient.ask("something else", of: hosts[0]) == "")
  }

  @Test(.timeLimit(.minutes(60)))
  func `hosts that cannot be read are unknown, and a host without a server is alone`() async throws
  {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    fleet.server.stop()
    let unknown = try StatusClient.ask("status", of: a)
    #expect(unknown.contains(#""hosts":null"#) || unknown.contains(#""connected":false"#))
    try await a.awaits(.problem)
    let alone = try StatusClient.ask("status", of: a)
    #expect(alone.contains(#""connected":false"#))
    #expect(alone.contains(#""hosts":[{"host":"a","silent_ms":0"#))
    #expect(alone.contains("it has not answered for 3s"))
    fleet.server.resume()
  }

  @Test(.timeLimit(.minutes(60)))
  func `clients that say nothing keep no other one waiting`() async throws {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    var silent: [Int32] = []
    defer { for client in silent { close(client) } }
    let start = ContinuousClock.now
    for _ in 0..<16 { silent.append(try UnixSocket.connect(to: a.store.path + "-relay.sock")) }
    #expect(try StatusClient.ask("figures", of: a).contains(#""connected":true"#))
    // Each of them may take two seconds to ask.
    #expect(.now - start < .seconds(16))
    for client in silent {
      var byte: UInt8 = 0
      #expect(unsafe read(client, &byte, 1) == 0)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the socket has the rights of the store, and replaces an earlier one`() async throws {
    let fleet = try TestFleet()
    let a = try TestHost("a", as: "a", in: fleet.directory, address: fleet.server.address)
    let path = try #require(a.options.store)
    try Files.changeMode(path, to: 0o660)
    try Files.write(path + "-relay.sock", [1, 2, 3])
    try Files.link(path + "-relay.sock.new", to: fleet.directory.file("elsewhere"))
    a.start()
    try await a.awaits(.connected)
    #expect(try Files.permissions(of: path + "-relay.sock").mode == 0o660)
    #expect(!Files.exists(fleet.directory.file("elsewhere")))
    #expect(try StatusClient.ask("figures", of: a).contains(#""connected":true"#))
  }

  @Test(.timeLimit(.minutes(60)))
  func `the socket has its rights before it has a name that others could take from it`()
    async throws
  {
    let fleet = try TestFleet()
    let watch = inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))
    defer { close(watch) }
    unsafe inotify_add_watch(
      watch, fleet.directory.path, UInt32(IN_CREATE | IN_MOVED_TO | IN_ATTRIB))
    let a = try await fleet.host("a")
    let store = a.store.path
    let rights = try Files.permissions(of: store)
    #expect(try Files.permissions(of: store + "-relay.sock").mode == rights.mode)
    var bytes = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe read(watch, &bytes, bytes.count)
    var changes: [String] = []
    var rest = bytes[..<max(0, count)]
    while rest.count >= MemoryLayout<inotify_event>.size {
      let event = unsafe rest.withUnsafeBytes { unsafe $0.loadUnaligned(as: inotify_event.self) }
      let name = rest.dropFirst(MemoryLayout<inotify_event>.size).prefix(Int(event.len))
      rest = rest.dropFirst(MemoryLayout<inotify_event>.size + Int(event.len))
      let text = String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
      let isDirectory = event.mask & UInt32(IN_ISDIR) != 0
      guard text.hasPrefix("a.db-relay.sock"), !isDirectory else { continue }
      changes.append(event.mask & UInt32(IN_MOVED_TO) != 0 ? "moved" : "made or changed")
    }
    #expect(changes == ["moved"])
    #expect(!Files.names(in: fleet.directory.path).contains { $0.contains(".sock.new") })
  }
}
