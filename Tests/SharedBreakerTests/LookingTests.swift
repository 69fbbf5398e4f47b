import SharedBreaker
import TestSupport
import Testing

/// Processes that look at a whole store.
@Suite struct LookingTests {
  @Test(.timeLimit(.minutes(60)))
  func `a process that only reads a store notices within a second that it was replaced`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    #expect(try store.snapshots().map(\.name) == ["api"])
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    try stage.puppet().ask("force forced_open")
    stage.clock.advance(by: .seconds(1))
    #expect(try store.snapshot(of: "api")?.mode == .forcedOpen)
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    stage.clock.advance(by: .seconds(1))
    #expect(try store.snapshots().isEmpty)
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    try stage.puppet().ask("trip")
    stage.clock.advance(by: .seconds(1))
    #expect(try store.history().count == 1)
  }
}
