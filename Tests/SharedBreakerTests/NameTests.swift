import SharedBreaker
import TestSupport
import Testing

@Suite struct `Names that look the same` {
  @Test(.timeLimit(.minutes(10)))
  func `but are other bytes are other breakers, to every process`() throws {
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

  @Test(.timeLimit(.minutes(10)))
  func `are so without a store, too`() throws {
    let stage = try Stage()
    try Files.write(stage.directory.file("state"), [])
    let store = stage.sharedStore()
    let breaker = try store.breaker("caf\u{E9}", policy: BreakerPolicy(maxFailures: 1))
    _ = try breaker.acquire().fail()
    #expect(breaker.state == .open)
    #expect(try store.breaker("cafe\u{301}").state == .closed)
  }
}

@Suite struct `A message about a breaker` {
  @Test func `shows what could mislead its reader`() throws {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker("pay\u{202e}")
    try breaker.force(.forcedOpen, reason: "a\u{1b}[2Jb")
    let error = #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(
      error?.description == #"pay\u{202e} is rejecting calls: an operator holds it open "#
        + #"until further notice: a\u{1b}[2Jb"#)
    let late = CallTimedOut(name: "pay\u{200b}", timeout: .seconds(1))
    #expect(late.description == #"a call through pay\u{200b} was not over after 1s"#)
  }
}
