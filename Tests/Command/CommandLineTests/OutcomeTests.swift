import TestSupport
import Testing

@Suite struct OutcomeTests {
  @Test(.timeLimit(.minutes(60)))
  func `the outcomes of a command behind a breaker have different exit codes`() throws {
    var cbctl = try CommandLineTool()
    #expect(try cbctl("run x -- true").code == 0)
    #expect(try cbctl("run x -- false").code == 1)
    #expect(try cbctl("run x -- sh -c 'exit 7'").code == 7)
    let missing = try cbctl("run x -- no-such-program")
    #expect(missing.code == 127)
    #expect(missing.errors.contains("no-such-program"))
    #expect(try cbctl("run x -- /").code == 126)
    // A command that could not be run says nothing about the resource.
    #expect(try cbctl("show x --json").output.contains("\"ignored\":2"))
    #expect(try cbctl("run x -- sh -c 'kill -9 $$'").code == 137)
    #expect(try cbctl("trip x").code == 0)
    let rejected = try cbctl("run x -- true")
    #expect(rejected.code == 75)
    #expect(rejected.output.isEmpty)
    cbctl.store = "/dev/null"
    let storeless = try cbctl("run x -- echo ran")
    #expect(storeless.code == 0)
    #expect(storeless.output == "ran\n")
    #expect(storeless.errors.split(separator: "\n").count == 1)
    #expect(try cbctl("run x --on-store-failure fail -- true").code == 69)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a misspelt name creates neither a store nor a breaker`() throws {
    let cbctl = try CommandLineTool()
    #expect(try cbctl("status payments").code == 69)
    #expect(!Files.exists(cbctl.store))
    #expect(try cbctl("run payments -- true").code == 0)
    for command in ["status payment", "show payment", "check payment", "reset payment"] {
      let result = try cbctl(command)
      #expect(result.code == 66)
      #expect(result.errors.contains("payments"))
    }
    #expect(try cbctl("status --json").output.components(of: "\"name\"") == 1)
  }
}

extension String {
  fileprivate func components(of part: String) -> Int {
    var count = 0
    var rest = self[...]
    while let range = rest.firstRange(of: part) {
      count += 1
      rest = rest[range.upperBound...]
    }
    return count
  }
}
