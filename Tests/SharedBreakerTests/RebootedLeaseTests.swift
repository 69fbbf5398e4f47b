import TestSupport
import Testing

@Suite struct RebootedLeaseTests {
  @Test(.timeLimit(.minutes(60)), arguments: ["policy max-failures 2", "force observe"])
  func `a lease of an earlier boot does not come back when something else is written first`(
    command: String
  ) throws {
    let stage = try Stage()
    let before = try stage.puppets(1, "max-failures=1 open-for=30s probe-timeout=1h")[0]
    #expect(try before.ask("trip") == "ok")
    stage.clock.advance(by: .seconds(30))
    // No process's end frees this slot.
    #expect(try before.ask("token").hasPrefix("cb2."))
    before.kill()
    stage.clock.reboot()
    let after = try stage.puppet()
    #expect(try after.ask(command) == "ok")
    #expect(try after.ask("force automatic") == "ok")
    #expect(try after.ask("acquire") == "probe")
    #expect(try after.ask("snapshot").contains("leases=1"))
  }
}
