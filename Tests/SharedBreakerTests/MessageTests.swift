import SharedBreaker
import TestSupport
import Testing

@Suite struct MessageTests {
  @Test func `a message about a breaker shows characters that could mislead its reader`() throws {
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
