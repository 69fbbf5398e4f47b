import SharedBreaker
import TestSupport
import Testing

@Suite struct `Those who look at a whole store` {
  @Test(.timeLimit(.minutes(10)))
  func `notice within a second that the file is another one`() throws {
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
