import TestSupport
import Testing

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
