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
      error?.description == #"pay\u{202e} is rejecting calls: its mode is forced_open "#
        + #"(a\u{1b}[2Jb): wait until somebody removes the mode"#)
    let late = CallTimedOut(name: "pay\u{200b}", timeout: .seconds(1))
    #expect(late.description == #"a call through pay\u{200b} took longer than 1s"#)
  }

  @Test func `a rejection says why, and when to try again if that is known`() {
    func words(
      _ state: BreakerState, _ mode: BreakerMode, _ time: Duration?, _ reason: String? = nil
    ) -> String {
      Rejection(state: state, mode: mode, retryAfter: time, reason: reason).description
    }
    #expect(words(.open, .automatic, .seconds(12)) == "it is open: try again in 12s")
    #expect(words(.open, .automatic, nil) == "it is open: try again later")
    let probed = "a probe is under way: try again"
    #expect(words(.halfOpen, .automatic, .seconds(2)) == "\(probed) in 2s at the latest")
    #expect(words(.halfOpen, .automatic, nil) == "\(probed) later")
    let forced = "its mode is forced_open (new disks): "
    #expect(words(.closed, .forcedOpen, .seconds(60), "new disks") == forced + "try again in 1m")
    #expect(
      words(.closed, .forcedOpen, nil)
        == "its mode is forced_open: wait until somebody removes the mode")
  }
}
