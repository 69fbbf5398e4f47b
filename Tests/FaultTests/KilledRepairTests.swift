import TestSupport
import Testing

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
