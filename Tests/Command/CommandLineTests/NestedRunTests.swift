import TestSupport
import Testing

/// Commands of `cbctl run` inside of each other.
@Suite struct NestedRunTests {
  @Test func `a command inside of one with the same name has the room of the outer one`() throws {
    let cbctl = try CommandLineTool()
    func run(_ words: String) -> String { "'\(BuiltProducts.path(of: "cbctl"))' run \(words) --" }
    let inner = run("disk --max-concurrent 1") + " " + run("gpu")
    let result = try cbctl("run gpu --max-concurrent 1 -- \(inner) echo inside")
    #expect(result.output == "inside\n", "\(result.errors)")
    #expect(result.code == 0)
    #expect(try cbctl("run gpu -- echo outside").output == "outside\n")
  }
}
