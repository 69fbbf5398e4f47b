import TestSupport
import Testing

/// Processes that call at the end of the open time.
@Suite(.serialized) struct ProbingTogetherTests {
  @Test(
    .timeLimit(.minutes(60)),
    arguments: [(processes: 20, probes: 1), (processes: 25, probes: 5)])
  func `exactly as many processes as there are probes are permitted after the open time`(
    processes: Int, probes: Int
  ) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(processes, "max-failures=1 open-for=30s probes=\(probes)")
    #expect(try puppets[0].ask("trip") == "ok")
    for round in 1...rounds(1_000) {
      stage.clock.advance(by: .seconds(30))
      let answers = try puppets.ask("acquire")
      try #require(answers.count("probe") == probes, "round \(round)")
      try #require(answers.count("rejected") == processes - probes, "round \(round)")
      let probers = zip(puppets, answers).filter { $0.1 == "probe" }.map(\.0)
      let halfOpened = try Database.rows(
        stage.store,
        "SELECT count(*) FROM event WHERE kind = 0 AND to_word = 'half_open';"
          + "DELETE FROM event")
      try #require(halfOpened == [["1"]], "round \(round)")
      try end(round, probers, of: puppets)
    }
  }

  /// In every other round the resource is back; in the rest it is not, and the breaker reopens.
  private func end(_ round: Int, _ probers: [Puppet], of puppets: [Puppet]) throws {
    let isBack = round.isMultiple(of: 2)
    let verdicts = try probers.ask(isBack ? "succeed" : "fail")
    #expect(verdicts.count("counted") == 1)
    #expect(verdicts.count("outdated") == probers.count - 1)
    #expect(try puppets.ask("state").count(isBack ? "closed" : "open") == puppets.count)
    if isBack { #expect(try puppets[round % puppets.count].ask("run fail") == "failed") }
  }
}
