import BreakerCore
import BreakerStore
import TestSupport
import Testing

/// A prober that is killed or stopped.
@Suite struct LostProberTests {
  /// A breaker whose open time is over, and the processes that use it.
  private func dueForProbe(_ count: Int) throws -> (Stage, [Puppet]) {
    let stage = try Stage()
    let puppets = try stage.puppets(count, "max-failures=1 open-for=30s probe-timeout=10s")
    #expect(try puppets[0].ask("run fail") == "failed")
    stage.clock.advance(by: .seconds(30))
    return (stage, puppets)
  }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `a prober killed by SIGKILL frees its slot at once`(isReaped: Bool) throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    #expect(try prober.ask("acquire") == "probe")
    #expect(try other.ask("acquire").hasPrefix("rejected half_open 1000"))
    if isReaped { prober.kill() } else { prober.process.killAndLeaveZombie() }
    #expect(try other.ask("acquire") == "probe")
    #expect(try other.ask("succeed") == "counted")
    #expect(try other.ask("state") == "closed")
    #expect(try stage.transitions("open", "half_open") == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the token of a prober killed by SIGKILL is refused`() throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    let token = try prober.ask("token \(prober.pid)")
    #expect(token.hasPrefix("cb1."))
    #expect(try other.ask("acquire").hasPrefix("rejected half_open"))
    prober.kill()
    // The token is refused before the slot goes to another process, and after.
    #expect(try other.ask("report \(token) success") == "refused")
    #expect(try other.ask("acquire") == "probe")
    #expect(try other.ask("report \(token) success") == "refused")
    #expect(try other.ask("report \(token) failure") == "refused")
    #expect(try other.ask("state") == "half_open")
    #expect(try other.ask("succeed") == "counted")
    #expect(try other.ask("snapshot").contains("failures=1 successes=1"))
    #expect(try stage.transitions("half_open", "closed") == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a lost prober is not mistaken for another program that has its pid now`() throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    #expect(try prober.ask("acquire") == "probe")
    // The lease names this running process, first correctly, then with another start time.
    let own = ProcessTable.current()
    try Database.rows(
      stage.store,
      "UPDATE lease SET pid = \(own.pid), start_ticks = \(own.startTicks);"
        + "UPDATE breaker SET name = name")
    #expect(try other.ask("acquire").hasPrefix("rejected half_open"))
    try Database.rows(
      stage.store,
      "UPDATE lease SET start_ticks = \(own.startTicks - 9); UPDATE breaker SET name = name")
    #expect(try other.ask("acquire") == "probe")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a prober stopped by SIGSTOP fails at its deadline and is refused afterwards`() throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    let answer = try prober.ask("acquire")
    #expect(answer == "probe")
    prober.process.stop()
    stage.clock.advance(by: .milliseconds(9_999))
    #expect(try other.ask("acquire") == "rejected half_open 1")
    stage.clock.advance(by: .milliseconds(1))
    #expect(try other.ask("acquire") == "rejected open 30000")
    #expect(try stage.transitions("half_open", "open") == 1)
    prober.process.resume()
    #expect(try prober.ask("succeed") == "refused")
    #expect(try prober.ask("state") == "open")
    #expect(try other.ask("snapshot").contains("successes=0"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `probers that are killed one after the other cost one process each open time`() throws {
    let (stage, puppets) = try dueForProbe(6)
    let last = puppets[5]
    for (number, puppet) in puppets.dropLast().enumerated() {
      #expect(try puppet.ask("acquire") == "probe")
      puppet.kill()
      guard number > 0 else { continue }
      #expect(try last.ask("acquire") == "rejected half_open 30000")
      stage.clock.advance(by: .seconds(30))
    }
    #expect(try last.ask("run ok") == "ok 42")
    #expect(try last.ask("state") == "closed")
  }
}
