@testable import BreakerCore
import Testing

/// The changes of a breaker, as the history stores them.
@Suite struct BreakerChangeTests {
  private static let changes: [(BreakerChange, String)] = [
    (.transition(from: .closed, to: .open), "closed -> open"),
    (.transition(from: .open, to: .halfOpen), "open -> half_open"),
    (.mode(from: .automatic, to: .observe), "mode: automatic -> observe"),
    (.reset(from: .halfOpen), "reset: half_open -> closed"),
    (.reset(from: .closed), "reset: closed"),
    (.policy(from: "", to: "probes=2"), "policy: +probes=2"),
    (.policy(from: "probes=2 jitter=5%", to: "probes=3"), "policy: -jitter=5%, probes 2 -> 3"),
    (.deletion(from: .open), "deletion: open -> deleted"),
    (.probe(.timedOut), "probe: probe -> timed_out"),
    (.probe(.lost), "probe: probe -> lost"),
    (.extended, "extension: open -> extended"),
    (.recovery, "recovery: open -> due"), (.hold(.began), "hold: began"),
    (.hold(.prolonged), "hold: prolonged"), (.hold(.ended), "hold: ended"),
    (.suspicion(from: .closed, to: .halfOpen), "suspicion: closed -> half_open"),
    (.suspicion(from: .halfOpen, to: .open), "suspicion: half_open -> open"),
  ]

  @Test(arguments: changes)
  func `a change is read back from the words that it is stored in`(
    change: BreakerChange, description: String
  ) {
    let read = BreakerChange(
      kind: change.kind.rawValue, from: change.wireFrom, to: change.wireTo)
    #expect(read == change)
    #expect(change.description == description)
  }

  @Test(arguments: [
    (0, "closed", "gone", "transition"), (0, "", "open", "transition"),
    (1, "automatic", "", "mode"), (1, "x", "observe", "mode"), (2, "", "closed", "reset"),
    (4, "x", "deleted", "deletion"), (5, "probe", "x", "probe"),
    (8, "closed", "x", "suspicion"), (8, "x", "open", "suspicion"), (99, "a", "b", "unknown"),
  ])
  func `a change whose words make no sense keeps them as they are`(
    kind: Int, from: String, to: String, name: String
  ) {
    let change = BreakerChange(kind: kind, from: from, to: to)
    #expect(change == .unknown(kind: name, from: from, to: to))
    #expect(change.kind == .transition)
    #expect((change.wireKind, change.wireFrom, change.wireTo) == (name, from, to))
    #expect(change.stateAfter == nil)
  }

  @Test func `an outage begins once and ends once`() {
    let begins = Self.changes.map { $0.0 }.filter { $0.beginsOutage }
    #expect(
      begins == [.transition(from: .closed, to: .open), .suspicion(from: .halfOpen, to: .open)])
    let outage: [BreakerChange] = [
      .transition(from: .closed, to: .open), .transition(from: .open, to: .halfOpen),
      .probe(.timedOut), .transition(from: .halfOpen, to: .open), .extended,
      .transition(from: .open, to: .halfOpen), .transition(from: .halfOpen, to: .closed),
    ]
    #expect(outage.map(\.beginsOutage) == [true] + [Bool](repeating: false, count: 6))
    #expect(outage.map(\.endsOutage) == [Bool](repeating: false, count: 6) + [true])
    let others: [BreakerChange] = [.reset(from: .open), .deletion(from: .halfOpen)]
    #expect(others.map(\.endsOutage) == [true, true])
    let none: [BreakerChange] = [.reset(from: .closed), .deletion(from: .closed), .extended]
    #expect(none.map(\.endsOutage) == [false, false, false])
    let suspected: [BreakerChange] = [
      .suspicion(from: .closed, to: .halfOpen), .suspicion(from: .halfOpen, to: .open),
      .recovery, .transition(from: .open, to: .halfOpen),
      .transition(from: .halfOpen, to: .closed),
    ]
    #expect(suspected.map(\.beginsOutage) == [false, true, false, false, false])
    #expect(suspected.map(\.endsOutage) == [false, false, false, false, true])
    let wrong = BreakerChange.suspicion(from: .halfOpen, to: .closed)
    #expect(!wrong.beginsOutage && !wrong.endsOutage)
  }

  @Test func `a change says which state it has brought about`() {
    let states = Self.changes.map { $0.0.stateAfter }
    #expect(
      states == [
        .open, .halfOpen, nil, .closed, .closed, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
        .halfOpen, .open,
      ])
  }
}

/// The name of the author of a change, in the history.
@Suite struct HistoryAuthorTests {
  private func words(user: String?, command: String?) -> String {
    HistoryAuthor(
      pid: 4_711, program: "cbctl", mandate: .init(user: user, command: command)
    ).words
  }

  @Test func `a program that acts for a user is named by the user, not by its process`() {
    #expect(words(user: "deploy", command: "curl") == "curl, by deploy, via cbctl")
    #expect(words(user: "deploy", command: nil) == "deploy, via cbctl")
    #expect(words(user: nil, command: "curl") == "curl, via cbctl")
    #expect(words(user: nil, command: nil) == "cbctl (pid 4711)")
    #expect(HistoryAuthor(pid: 1, program: "worker").words == "worker (pid 1)")
  }

  @Test func `the names of users and commands are cut to the limit of names`() {
    let long = String(repeating: "x", count: 300)
    let mandate = HistoryAuthor.Mandate(user: long, command: long)
    #expect(mandate.user?.utf8.count == 255)
    #expect(mandate.command?.utf8.count == 255)
  }
}
