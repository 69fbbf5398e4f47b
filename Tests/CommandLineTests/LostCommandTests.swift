import Glibc
import TestSupport
import Testing

/// Commands that are killed one after the other, as cron or a time limit kills them.
@Suite struct LostCommandTests {
  @Test(.timeLimit(.minutes(60)))
  func `killed commands open the breaker though each of them finds room`() throws {
    let cbctl = try CommandLineTool()
    let words = "--max-concurrent 9 --lost-calls failure --max-failures 3"
    #expect(try cbctl("run api \(words) -- true").code == 0)
    for _ in 1...3 {
      let command = try Child(
        BuiltProducts.path(of: "cbctl"),
        ["--store", cbctl.store, "run", "api", "--", "sh", "-c", "echo begun; exec cat"])
      #expect(try command.line() == "begun")
      command.kill()
    }
    #expect(try cbctl("run api -- true").code == 75)
    let document = try cbctl("show api --json").output
    #expect(document.contains(#""state":"open""#), "\(document)")
    #expect(document.contains(#""lost_calls":3"#), "\(document)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `commands that end by themselves lose nothing`() throws {
    let cbctl = try CommandLineTool()
    let words = "--max-concurrent 9 --lost-calls failure --max-failures 1"
    for _ in 1...3 { #expect(try cbctl("run api \(words) -- true").code == 0) }
    let document = try cbctl("show api --json").output
    #expect(document.contains(#""state":"closed""#) && document.contains(#""lost_calls":0"#))
  }
}
