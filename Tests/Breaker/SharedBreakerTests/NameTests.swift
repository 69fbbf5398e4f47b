import SharedBreaker
import TestSupport
import Testing

@Suite struct NameTests {
  @Test(.timeLimit(.minutes(60)))
  func `names that look the same but differ in bytes are different breakers`() throws {
    let stage = try Stage()
    let (one, other) = ("caf\u{E9}", "cafe\u{301}")
    let store = stage.sharedStore()
    let second = stage.sharedStore()
    try store.breaker(one).run {}
    try store.breaker(other).trip()
    #expect(try store.breaker(one).state == .closed)
    #expect(try second.breaker(one).state == .closed)
    #expect(try second.breaker(other).state == .open)
    try second.breaker(other).reset()
    try second.breaker(one).trip()
    #expect(try store.breaker(one).state == .open)
    #expect(try store.breaker(other).state == .closed)
  }

  @Test(.timeLimit(.minutes(60)))
  func `names that look the same are different breakers without a store too`() throws {
    let stage = try Stage()
    try Files.write(stage.directory.file("state"), [])
    let store = stage.sharedStore()
    let breaker = try store.breaker("caf\u{E9}", policy: BreakerPolicy(maxFailures: 1))
    _ = try breaker.acquire().fail()
    #expect(breaker.state == .open)
    #expect(try store.breaker("cafe\u{301}").state == .closed)
  }
}
