import SharedBreaker
import TestSupport
import Testing

@Suite struct OwnCommitTests {
  @Test(.timeLimit(.minutes(60)))
  func `a process's own commit does not hide what another one committed before it`() throws {
    let directory = try TemporaryDirectory()
    let here = SharedStore(path: directory.store)
    let there = SharedStore(path: directory.store)
    let written = try here.breaker("written")
    let watched = try here.breaker("watched")
    for round in 0..<200 {
      #expect(written.state == .closed)
      #expect(watched.state == .closed)
      try there.breaker("watched").trip()
      // Writes without reading first, as every operator's command does.
      try written.reset()
      #expect(watched.state == .open, "round \(round)")
      try there.breaker("watched").reset()
    }
  }
}
