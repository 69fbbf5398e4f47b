import TestSupport
import Testing

@Suite struct `A power cut` {
  @Test(
    .timeLimit(.minutes(10)), arguments: ["a-new-store", "first-use", "a-life", "a-checkpoint"])
  func `at any step of the disk takes no transition that was acknowledged`(story: String) throws {
    let directory = try TemporaryDirectory()
    // Once nothing that was not written through is there, once all of it, and then some of it.
    let seeds = 2 + rounds(2)
    let output = try Child.run(
      BuiltProducts.path(of: "fault-player"),
      ["power-cuts", story, directory.path, "\(Steps.stride)", "\(seeds)"],
      patienceMilliseconds: 300_000)
    #expect(output.hasSuffix(" 0 wrong\n"), "\(output)")
  }
}
