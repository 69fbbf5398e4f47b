import TestSupport
import Testing

/// A wall clock that jumps, and clocks that start over with a reboot.
@Suite struct ClockTests {
  private static let year = Duration.seconds(365 * 86_400)

  @Test(.timeLimit(.minutes(60)), arguments: [year, .zero - year])
  func `a wall clock that jumps by a year changes nothing`(jump: Duration) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=1 open-for=30s probe-timeout=10s")
    #expect(try puppets[0].ask("run fail") == "failed")
    stage.clock.moveWall(by: jump)
    #expect(try puppets.ask("acquire") == ["rejected open 30000", "rejected open 30000"])
    stage.clock.advance(by: .seconds(30))
    #expect(try puppets[0].ask("acquire") == "probe")
    stage.clock.moveWall(by: jump + jump)
    #expect(try puppets[1].ask("acquire") == "rejected half_open 1000")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[0].ask("force forced_open 5000") == "ok")
    stage.clock.moveWall(by: jump)
    #expect(try puppets[1].ask("acquire") == "rejected closed 5000")
    stage.clock.advance(by: .seconds(5))
    #expect(try puppets[1].ask("acquire") == "normal")
  }

  /// The rest of 30 seconds after the host was off for a time and up for a second.
  @Test(
    .timeLimit(.minutes(60)),
    arguments: zip(
      [Duration.seconds(10), .zero, .zero - year, .seconds(29), .seconds(30), year],
      [20_000, 29_000, 29_000, 1_000, 0, 0]))
  func `a reboot leaves the breaker open for what is left of its open time`(
    off: Duration, left: Int
  ) throws {
    let stage = try Stage()
    let before = try stage.puppets(2, "max-failures=1 open-for=30s")
    #expect(try before[0].ask("run fail") == "failed")
    for puppet in before { puppet.kill() }
    stage.clock.reboot(after: off)
    let after = try stage.puppets(2, "max-failures=1 open-for=30s")
    if left > 0 {
      #expect(try after.ask("acquire") == ["rejected open \(left)", "rejected open \(left)"])
      stage.clock.advance(by: .milliseconds(left - 1))
      #expect(try after[1].ask("acquire") == "rejected open 1")
      stage.clock.advance(by: .milliseconds(1))
    }
    #expect(try after[0].ask("acquire") == "probe")
    #expect(try after[1].ask("acquire").hasPrefix("rejected half_open"))
    #expect(try after[0].ask("succeed") == "counted")
    #expect(try after[1].ask("state") == "closed")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a reboot frees the slots of all probes`() throws {
    let stage = try Stage()
    let before = try stage.puppets(1, "max-failures=1 open-for=30s probe-timeout=1h")[0]
    #expect(try before.ask("trip") == "ok")
    stage.clock.advance(by: .seconds(30))
    let token = try before.ask("token")
    #expect(try before.ask("acquire").hasPrefix("rejected half_open"))
    before.kill()
    stage.clock.reboot()
    let after = try stage.puppet()
    #expect(try after.ask("acquire") == "probe")
    #expect(try after.ask("report \(token) success") == "refused")
    #expect(try after.ask("succeed") == "counted")
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: zip([Duration.seconds(20), .zero - year], [40_000, 59_000]))
  func `a reboot leaves a mode what is left of its time`(off: Duration, left: Int) throws {
    let stage = try Stage()
    let before = try stage.puppets(1, "max-failures=1")[0]
    #expect(try before.ask("force forced_open 60000") == "ok")
    before.kill()
    stage.clock.reboot(after: off)
    let after = try stage.puppet()
    #expect(try after.ask("acquire") == "rejected closed \(left)")
    stage.clock.advance(by: .milliseconds(left))
    #expect(try after.ask("run ok") == "ok 42")
    #expect(try after.ask("snapshot").hasPrefix("closed automatic"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a reboot leaves a mode without an end as it is`() throws {
    let stage = try Stage()
    let before = try stage.puppets(1, "max-failures=1")[0]
    #expect(try before.ask("force forced_open") == "ok")
    before.kill()
    stage.clock.reboot(after: Self.year)
    #expect(try stage.puppet().ask("acquire") == "rejected closed never")
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["policy max-failures 2", "force observe"])
  func `a lease of an earlier boot does not come back when something else is written first`(
    command: String
  ) throws {
    let stage = try Stage()
    let before = try stage.puppets(1, "max-failures=1 open-for=30s probe-timeout=1h")[0]
    #expect(try before.ask("trip") == "ok")
    stage.clock.advance(by: .seconds(30))
    // This slot is not freed when a process ends.
    #expect(try before.ask("token").hasPrefix("cb1."))
    before.kill()
    stage.clock.reboot()
    let after = try stage.puppet()
    #expect(try after.ask(command) == "ok")
    #expect(try after.ask("force automatic") == "ok")
    #expect(try after.ask("acquire") == "probe")
    #expect(try after.ask("snapshot").contains("leases=1"))
  }
}
