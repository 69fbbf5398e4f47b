import SharedBreaker
import TestSupport
import Testing

/// The command and the library, which use one breaker in turn.
@Suite struct AgreementTests {
  @Test(.timeLimit(.minutes(60)))
  func `the command and the library agree on a breaker at every step`() throws {
    let cbctl = try CommandLineTool()
    let store = SharedStore(path: cbctl.store)
    let breaker = try store.breaker(
      "api", policy: BreakerPolicy(maxFailures: 2, openFor: .seconds(600)))

    /// Expects the same of the library and of two commands.
    func all(_ state: BreakerState, permits: Bool) throws {
      #expect(breaker.state == state)
      #expect(breaker.snapshot().permits == permits)
      #expect(try cbctl("check api --quiet").code == (permits ? 0 : 75))
      #expect(try cbctl("status api --json").output.contains("\"state\":\"\(state.wireName)\""))
    }

    try all(.closed, permits: true)
    try breaker.acquire().fail()
    try all(.closed, permits: true)
    #expect(try cbctl("run api -- false").code == 1)
    try all(.open, permits: false)
    #expect(throws: BreakerError.self) { try breaker.run {} }
    #expect(try cbctl("run api -- true").code == 75)
    #expect(try cbctl("reset api").code == 0)
    try all(.closed, permits: true)
    #expect(try cbctl("force api forced_open --reason maintenance").code == 0)
    try all(.closed, permits: false)
    try breaker.force(.automatic)
    try all(.closed, permits: true)
    #expect(try cbctl("policy api --set max-failures=1").code == 0)
    try breaker.acquire().fail(error: "down")
    try all(.open, permits: false)
    #expect(try cbctl("trip api --for 1us").code == 0)
    let token = try #require(
      PermitToken(String(try cbctl("acquire api").output.dropLast())))
    #expect(token.kind == .probe)
    try all(.halfOpen, permits: false)
    #expect(try store.report(token, .success) == .counted)
    try all(.closed, permits: true)
    // The token of a probe works once.
    #expect(try cbctl("report \(token) failure").errors.contains("report refused"))
    try all(.closed, permits: true)
    #expect(breaker.snapshot().trips == 2)
    #expect(try cbctl("history api").output.split(separator: "\n").count == 9)
  }
}
