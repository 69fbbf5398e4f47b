import SharedBreaker
import TestSupport
import Testing

/// How the history names a process that does not name itself.
@Suite struct OwnNameTests {
  @Test(.timeLimit(.minutes(60)))
  func `a server with a title in its command line is named by its program`() throws {
    let stage = try Stage()
    let launcher = [
      "bash", "-c", "exec -a '127.0.0.1:19292) [app]' \"$@\"", "bash",
    ]
    let puppet = try Puppet(on: stage, startedBy: launcher, ["own-name"])
    #expect(try puppet.ask("trip") == "ok")
    let entry = try #require(try stage.sharedStore().history().last)
    #expect(entry.program == "puppet")
    #expect(entry.author == "puppet (pid \(puppet.pid))")
    #expect(entry.user == nil && entry.command == nil)
  }
}
