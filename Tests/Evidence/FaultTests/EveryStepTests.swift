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

@Suite struct KilledRepairTests {
  @Test(.timeLimit(.minutes(60)))
  func `a repair that is killed at any step leaves the old store or the new one`() throws {
    let directory = try TemporaryDirectory()
    let output = try Child.run(
      BuiltProducts.path(of: "fault-player"),
      ["kills", "repair", directory.path, "\(Steps.stride)", "0"],
      patienceMilliseconds: 1_800_000)
    #expect(output.hasSuffix(" 0 wrong\n"), "\(output)")
  }
}

@Suite struct PowerCutTests {
  @Test(
    .timeLimit(.minutes(60)), arguments: ["a-new-store", "first-use", "a-life", "a-checkpoint"])
  func `a power cut at any disk step loses no acknowledged transition`(story: String) throws {
    let directory = try TemporaryDirectory()
    // Of what was not synced, first nothing survives, then all of it, and then some of it.
    let seeds = 2 + rounds(2)
    let output = try Child.run(
      BuiltProducts.path(of: "fault-player"),
      ["power-cuts", story, directory.path, "\(Steps.stride)", "\(seeds)"],
      patienceMilliseconds: 1_800_000)
    #expect(output.hasSuffix(" 0 wrong\n"), "\(output)")
  }
}

enum Steps {
  /// How many steps apart the ones are at which the disk or the power fails.
  ///
  /// Every step has its turn, unless few rounds were asked for, as under a sanitizer. Then only a
  /// share of the steps of every kind has.
  static let stride = rounds(1_000) < 100 ? 7 : 1
}
