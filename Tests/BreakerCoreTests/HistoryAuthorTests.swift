import Testing

@testable import BreakerCore

/// How the history names who does something.
@Suite struct HistoryAuthorTests {
  private func words(user: String?, command: String?) -> String {
    HistoryAuthor(
      pid: 4_711, program: "cbctl", mandate: .init(user: user, command: command)
    ).words
  }

  @Test func `whoever acts for a user is named by the user instead of the process`() {
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
