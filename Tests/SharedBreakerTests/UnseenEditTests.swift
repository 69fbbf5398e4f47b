import SharedBreaker
import TestSupport
import Testing

@Suite struct UnseenEditTests {
  @Test(.timeLimit(.minutes(60)), arguments: 1..<4)
  func `an edit made while no process has the file open is seen afterwards`(commits: Int) throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api")
    for _ in 0..<4 { try breaker.reset() }
    // The count of commits starts over with each opening.
    store.close()
    for _ in 0..<commits { try breaker.reset() }
    #expect(breaker.snapshot().mode == .automatic)
    store.close()
    try Database.rows(stage.store, "UPDATE breaker SET mode = 1")
    #expect(breaker.snapshot().mode == .forcedOpen)
  }
}
