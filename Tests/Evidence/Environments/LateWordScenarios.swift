import TestSupport

/// Scenarios of permits and tokens that are reported too late.
extension Scenario {
  static let ofLateWords = [
    Scenario(
      name: "late report",
      summary: "what a probe reports after its deadline is refused, and closes nothing"
    ) { scene in
      for side in Scene.Side.allCases {
        let late = try scene.puppet(side)
        let next = try scene.puppet(side == .outside ? .inside : .outside)
        try scene.trip([late, next], "late-\(side)", "open-for=200ms probe-timeout=500ms probes=2")
        scene.expect(try scene.permit(for: late, "a prober"), is: "probe", "a prober \(side)")
        let token = try scene.until("'acquire' \(side) is a probe") {
          let told = try scene.cbctl(side, "acquire late-\(side) --quiet")
          return told.code == 0 ? told.text.inOneLine : nil
        }
        let acquired = Scene.now()
        _ = try scene.until("both deadlines are over") {
          Scene.now() - acquired > 500_000_000 ? true : nil
        }
        scene.expect(try scene.permit(for: next, "the next"), is: "probe", "the next after \(side)")
        scene.expect(try late.ask("succeed"), is: "refused", "a report \(side) after its deadline")
        let report = try scene.cbctl(side, "report \(token) success")
        scene.expect(report, hasCode: 1, "'report' \(side) after its deadline")
        scene.expect(
          try Database.transitions(
            scene.store, from: "half_open", to: "closed", of: "late-\(side)"),
          is: 0, "times that late reports \(side) have closed it")
      }
    },
    Scenario(
      name: "old words",
      summary: "permits and tokens of a store that was deleted change nothing in the next one"
    ) { scene in
      let puppets = try (0..<2).flatMap { _ in
        try Scene.Side.allCases.map { try scene.puppet($0) }
      }
      let (old, new) = (Array(puppets[..<2]), Array(puppets[2...]))
      // Each process has a permit of a closed breaker, and two of them have a probe as well.
      try scene.tell(puppets, "name closed")
      _ = try puppets.ask("acquire")
      try scene.probe(old, of: puppets)
      let token = try scene.cbctl(.inside, "acquire api --quiet")
      scene.expect(token, hasCode: 0, "'acquire'")
      try scene.deleteFiles(under: puppets)
      try scene.probe(new, of: puppets)

      // Each process reports its oldest permit first, which is that of the closed breaker.
      for answer in try puppets.ask("fail") {
        scene.expect(answer != "counted", "a permit of the old store: \(answer)")
      }
      for answer in try old.ask("succeed") {
        scene.expect(answer != "counted", "a probe of the old store: \(answer)")
      }
      let report = try scene.cbctl(.inside, "report \(token.text.inOneLine) success")
      scene.expect(!report.text.isEmpty, "'report' of a token of the old store says nothing")
      let check = try scene.cbctl(.outside, "check closed")
      scene.expect(check, hasCode: 0, "'closed', after failures of the old store")
      for state in try puppets.ask("state") {
        scene.expect(state, is: "half_open", "after words of the old store")
      }
      scene.expect(try new[0].ask("succeed"), is: "counted", "the report of a new probe")
      scene.expect(try new[1].ask("state"), is: "closed", "after the report of a new probe")
    },
  ]
}

extension Scene {
  /// Creates the same breakers in the same order in each store, so that they have the same row ids
  /// and generations, and ends with probes under way.
  fileprivate func probe(_ probers: [Puppet], of puppets: [Puppet]) throws {
    try meet(puppets)
    expect(try cbctl(.outside, "policy closed --set max-failures=1"), hasCode: 0, "'policy'")
    try trip(puppets, "api", "open-for=200ms probes=3 probe-timeout=10m")
    for prober in probers {
      expect(try permit(for: prober, "a prober"), is: "probe", "a call of the open breaker")
    }
  }
}
