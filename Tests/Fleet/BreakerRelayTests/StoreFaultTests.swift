import BreakerRelay
import SharedBreaker
import TestSupport
import Testing

/// A relay whose host's store fails.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct StoreFaultTests {
  @Test(.timeLimit(.minutes(60)))
  func `a locked store is written when it is free again`() async throws {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    let b = try await fleet.host("b")
    let path = try #require(b.options.store)
    var holder: Holder? = try Holder(path, "BEGIN IMMEDIATE")
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await b.awaits(.problem)
    #expect(b.log.contains { $0.contains("another process holds it") })
    #expect(try b.snapshot("pay") == nil)
    holder = nil
    #expect(holder == nil)
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a relay starts over with a store that was deleted or replaced`() async throws {
    let fleet = try TestFleet()
    let a = try await fleet.host("a")
    let b = try await fleet.host("b")
    let path = try #require(b.options.store)
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    for file in try Files.all(in: fleet.directory.path) where file.hasPrefix(path) {
      Files.removeAll(file)
    }
    try await b.awaits(.connected, times: 2)
    let store = SharedStore(path: path)
    try await eventually("the new store has the fleet's commands") {
      try store.snapshot(of: "pay")?.mode == .observe
    }
    try a.breaker("pay").force(.forcedOpen, scope: .fleet)
    try await eventually("the new store hears") {
      try store.snapshot(of: "pay")?.mode == .forcedOpen
    }
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `a full disk loses nothing`() async throws {
    let fleet = try TestFleet()
    let disk = try SmallDisk(at: fleet.directory.file("disk"), kilobytes: 2_048)
    let a = try await fleet.host("a")
    let b = try await fleet.host("disk/b", as: "b")
    try disk.fill()
    let breakers = try (0..<50).map { try a.breaker("pay.\($0)") }
    let reason = String(repeating: "long ", count: 200)
    for breaker in breakers { try breaker.force(.observe, reason: reason, scope: .fleet) }
    try await b.awaits(.problem)
    #expect(b.log.contains { $0.contains("the disk is full") }, "\(b.log)")
    disk.makeRoom()
    try await eventually("b observes") {
      try breakers.allSatisfy { try b.snapshot($0.name)?.mode == .observe }
    }
    // The log must not take the room that the store and its pages need to grow.
    for mode in [BreakerMode.forcedOpen, .observe, .forcedOpen, .observe] {
      for breaker in breakers {
        try breaker.force(mode, reason: reason, scope: .fleet)
        try await eventually("b takes \(breaker.name) to \(mode): \(disk.use), \(a.log), \(b.log)")
        {
          try b.snapshot(breaker.name)?.mode == mode
        }
      }
    }
  }
}
