import TestSupport
import Testing

/// A fault at every step of what a process does with a store.
@Suite struct EveryStepTests {
  /// Everything that a process does with a store.
  static let scenarios = [
    "open-fresh", "open-existing", "bring-up-to-date", "first-call", "first-use",
    "first-failure", "declare", "redeclare", "failure", "success-after-failure", "trip", "rate",
    "success-after-neighbour", "rejection", "probe", "probe-success", "probe-failure",
    "probe-ignored", "probe-renewal", "hung-probe", "token", "reset", "force",
    "operator-trip", "policy", "delete", "snapshot", "state", "list", "history", "declarations",
    "follow", "handle", "close", "return", "deleted-file", "checkpoint",
  ]

  @Test(.timeLimit(.minutes(60)), arguments: scenarios)
  func `a step that fails is done or not, and the store is used again`(scenario: String) throws {
    let directory = try TemporaryDirectory()
    // Lasting faults begin only at every `lasting`-th step.
    let lasting = 400 / min(400, rounds(20))
    let output = try Child.run(
      BuiltProducts.path(of: "fault-player"),
      ["faults", scenario, directory.path, "\(Steps.stride)", "\(lasting)"],
      patienceMilliseconds: 1_800_000)
    #expect(output.hasSuffix(" 0 wrong\n"), "\(output)")
  }
}
