import SharedBreaker
import TestSupport
import Testing

@Suite struct HistoryLimitTests {
  @Test func `two breakers that change in turn keep little more than 500 entries each`() throws {
    let stage = try TemporaryDirectory()
    let store = SharedStore(path: stage.store)
    let breakers = try ["first", "second"].map { try store.breaker($0) }
    for breaker in breakers { try breaker.trip() }
    // Older entries of both, one by one as the later ones.
    try Database.rows(
      stage.store,
      """
      WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 1999)
      INSERT INTO event (at_ms, name, kind, from_word, to_word, pid, program)
      SELECT 0, iif(n % 2, 'second', 'first'), 0, 'closed', 'open', 1, 'test' FROM number
      """)
    for _ in 0..<32 {
      for breaker in breakers { try breaker.trip() }
    }
    for breaker in breakers {
      let kept = try store.history(of: breaker.name).count
      #expect((500..<532).contains(kept), "\(breaker.name) has \(kept)")
    }
  }
}
