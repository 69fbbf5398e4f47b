import BreakerCore
import BreakerStore
import TestSupport
import Testing

@Suite struct `A prober that is lost` {
  /// A breaker whose open time is over, and the processes that use it.
  private func dueForProbe(_ count: Int) throws -> (Stage, [Puppet]) {
    let stage = try Stage()
    let puppets = try stage.puppets(count, "max-failures=1 open-for=30s probe-timeout=10s")
    #expect(try puppets[0].ask("run fail") == "failed")
    stage.clock.advance(by: .seconds(30))
    return (stage, puppets)
  }

  @Test(.timeLimit(.minutes(10)), arguments: [true, false])
  func `by SIGKILL leaves its slot to the next caller at once`(isReaped: Bool) throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    #expect(try prober.ask("acquire") == "probe")
    #expect(try other.ask("acquire").hasPrefix("rejected half_open 10000"))
    if isReaped { prober.kill() } else { prober.process.killAndLeaveZombie() }
    #expect(try other.ask("acquire") == "probe")
    #expect(try other.ask("succeed") == "counted")
    #expect(try other.ask("state") == "closed")
    #expect(try stage.transitions("open", "half_open") == 1)
  }

  @Test(.timeLimit(.minutes(10)))
  func `by SIGKILL has its token refused`() throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    let token = try prober.ask("token \(prober.pid)")
    #expect(token.hasPrefix("cb2."))
    #expect(try other.ask("acquire").hasPrefix("rejected half_open"))
    prober.kill()
    // Refused before the slot is given to somebody else, and after.
    #expect(try other.ask("report \(token) success") == "refused")
    #expect(try other.ask("acquire") == "probe")
    #expect(try other.ask("report \(token) success") == "refused")
    #expect(try other.ask("report \(token) failure") == "refused")
    #expect(try other.ask("state") == "half_open")
    #expect(try other.ask("succeed") == "counted")
    #expect(try other.ask("snapshot").contains("failures=1 successes=1"))
    #expect(try stage.transitions("half_open", "closed") == 1)
  }

  @Test(.timeLimit(.minutes(10)))
  func `is not taken for another program that has its number now`() throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    #expect(try prober.ask("acquire") == "probe")
    // This process runs, and the lease names it; first rightly, then with another start time.
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

  @Test(.timeLimit(.minutes(10)))
  func `by SIGSTOP has failed at its deadline, and is refused when it comes back`() throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    #expect(try prober.ask("acquire") == "probe")
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

  @Test(.timeLimit(.minutes(10)))
  func `one after the other never keeps the breaker half-open`() throws {
    let (_, puppets) = try dueForProbe(10)
    for puppet in puppets.dropLast() {
      #expect(try puppet.ask("acquire") == "probe")
      puppet.kill()
    }
    #expect(try puppets[9].ask("run ok") == "ok 42")
    #expect(try puppets[9].ask("state") == "closed")
  }
}
