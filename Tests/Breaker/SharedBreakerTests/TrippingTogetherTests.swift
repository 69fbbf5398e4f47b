import TestSupport
import Testing

@Suite struct TrippingTogetherTests {
  @Test(.timeLimit(.minutes(60)))
  func `processes reach one threshold together and trip the breaker exactly once`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(16, "max-failures=5 open-for=30s")
    for round in 1...rounds(40) {
      #expect(try puppets.ask("acquire").count("normal") == 16)
      let verdicts = try puppets.ask("fail boom")
      #expect(verdicts.count("counted") == 5)
      #expect(verdicts.count("outdated") == 11)
      let snapshot = try puppets[0].ask("snapshot")
      #expect(snapshot.contains("open automatic permits=false"))
      #expect(snapshot.contains("consecutive=5 trips=\(round) failures=\(round * 16)"))
      #expect(try stage.transitions("closed", "open") == round)
      #expect(try puppets.ask("acquire").count("rejected") == 16)
      #expect(try puppets[round % 16].ask("reset") == "ok")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `reports on calls from before a trip do not affect the probe`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(4, "max-failures=2 open-for=30s")
    #expect(try puppets.ask("acquire").count("normal") == 4)
    #expect(try puppets[0].ask("fail") == "counted")
    #expect(try puppets[1].ask("fail") == "counted")
    let open = try puppets[0].ask("snapshot")
    stage.clock.advance(by: .seconds(30))
    #expect(try puppets[0].ask("acquire") == "probe")
    // Neither a success nor a failure from before the trip says anything about the probe.
    #expect(try puppets[2].ask("succeed") == "outdated")
    #expect(try puppets[3].ask("fail") == "outdated")
    #expect(open.hasPrefix("open"))
    #expect(try puppets[3].ask("state") == "half_open")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[3].ask("state") == "closed")
  }

  @Test(.timeLimit(.minutes(60)))
  func `failures reported after a reset on earlier calls do not trip the breaker again`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-failures=1 open-for=30s")
    #expect(try puppets.ask("acquire").count("normal") == 3)
    #expect(try puppets[0].ask("fail") == "counted")
    #expect(try puppets[0].ask("reset") == "ok")
    #expect(try puppets[1].ask("fail") == "outdated")
    #expect(try puppets[2].ask("fail") == "outdated")
    #expect(try puppets[1].ask("snapshot").hasSuffix("trips=1 failures=3 successes=0 leases=0"))
    #expect(try puppets.ask("state") == ["closed", "closed", "closed"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `no acknowledged failure is lost, however many processes write at once`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(8, "max-failures=1000000")
    for puppet in puppets { try puppet.send("failures 100") }
    for puppet in puppets { #expect(try puppet.answer() == "failed 100 rejected 0") }
    #expect(try puppets[0].ask("snapshot").contains("consecutive=800 trips=0 failures=800"))
  }
}
