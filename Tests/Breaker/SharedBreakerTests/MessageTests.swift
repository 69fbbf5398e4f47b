import BreakerStore
import Glibc
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

  @Test func `an entry of the history describes itself in one line`() throws {
    let stage = try Stage()
    let store = SharedStore(path: stage.store, options: StoreOptions(program: "wor\u{1b}ker"))
    let breaker = try store.breaker("pay\u{202e}")
    try breaker.trip(reason: "new\ndisks")
    try breaker.force(.observe)
    let author = #"wor\u{1b}ker (pid \#(getpid()))"#
    #expect(
      try store.history().suffix(2).map(\.description) == [
        #"pay\u{202e}: closed -> open: new\u{a}disks, \#(author)"#,
        #"pay\u{202e}: mode: automatic -> observe, \#(author)"#,
      ])
  }

  @Test func `an event of a store describes itself in one line`() {
    let error = StoreError(.diskFull, "the disk is full")
    let rejection = Rejection(state: .open, mode: .automatic, retryAfter: .seconds(12), reason: nil)
    let events: [(StoreEvent, String)] = [
      (.unavailable(error), "the store is unavailable: the disk is full"),
      (.available, "the store is available again"),
      (.notDurable(error), "a change may not survive a power cut: the disk is full"),
      (
        .transition(name: "pay\u{1b}", from: .closed, to: .open, reason: "3 failures\n"),
        #"pay\u{1b}: closed -> open: 3 failures\u{a}"#
      ),
      (
        .transitionAlone(name: " ", from: .open, to: .halfOpen, reason: "due"),
        "' ': open -> half_open in this process alone: due"
      ),
      (.rejected(name: "pay", rejection), "pay: a call was rejected: it is open: try again in 12s"),
      (
        .policyDiffers(name: "pay", declaredHere: "open-for=30s", inForce: "open-for=1m probes=2"),
        "pay: another policy is in force: open-for 30s -> 1m, +probes=2"
      ),
      (
        .notShared(name: "pay", error),
        "pay: this process shares it with no other: the disk is full"
      ),
      (
        .hookGaveUp(hook: "pager", entry: 7, name: "pay"),
        "pay: hook 'pager' has failed too often and skips entry 7"
      ),
    ]
    for (event, words) in events { #expect("\(event)" == words) }
  }

  @Test func `a rejection says why, and when to try again if that is known`() {
    func words(
      _ state: BreakerState, _ mode: BreakerMode, _ time: Duration?, _ reason: String? = nil
    ) -> String {
      Rejection(state: state, mode: mode, retryAfter: time, reason: reason).description
    }
    #expect(words(.open, .automatic, .seconds(12)) == "it is open: try again in 12s")
    #expect(words(.open, .automatic, .seconds(6_599)) == "it is open: try again in 1h 50m")
    #expect(words(.open, .automatic, .milliseconds(1_973)) == "it is open: try again in 2s")
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
