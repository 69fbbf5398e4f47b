import TestSupport

/// Scenarios of what all processes see once one of them has opened a breaker.
extension Scenario {
  static let ofTrips = [
    Scenario(
      name: "trip",
      summary:
        "once a breaker has tripped, it rejects the next call of every process, and all later ones"
    ) { scene in
      let puppets = try scene.puppets(each: 2)
      for tripper in Scene.Side.allCases {
        try scene.trip("failing-\(tripper)", "failures \(tripper)", seenBy: puppets) { _ in
          let failing = puppets[tripper == .outside ? 0 : 1]
          let answer = try failing.ask("failures 3")
          scene.expect(answer, is: "failed 3 rejected 0", "failures")
        }
        try scene.trip("told-\(tripper)", "'cbctl trip' \(tripper)", seenBy: puppets) { name in
          scene.expect(try scene.cbctl(tripper, "trip \(name)"), hasCode: 0, "'cbctl trip'")
        }
      }
      try scene.kill(puppets)
      for (side, name) in [(Scene.Side.outside, "told-inside"), (.inside, "failing-outside")] {
        let newcomer = try scene.puppet(side)
        try scene.tell([newcomer], "name \(name)")
        let answer = try newcomer.ask("run ok")
        scene.expectRejected(answer, "a newcomer \(side) of '\(name)', after all were killed")
      }
      let moves = try Database.rows(
        scene.store,
        """
        SELECT name, from_word || '>' || to_word FROM event
        WHERE kind = 0 AND name NOT LIKE 'elsewhere%'
        """)
      scene.expect(
        moves.map { $0[1] }, is: Array(repeating: "closed>open", count: 4), "transitions: \(moves)")
    },
    Scenario(
      name: "open time",
      summary: "an open breaker permits a probe once its time is over, and nothing before"
    ) { scene in
      for (tripper, prober) in [(Scene.Side.outside, Scene.Side.inside), (.inside, .outside)] {
        let puppets = [try scene.puppet(tripper), try scene.puppet(prober)]
        try scene.tell(puppets, "name tripped-\(tripper)")
        try scene.tell(puppets, "open max-failures=1 open-for=1s")
        let start = Scene.now()
        scene.expect(try puppets[0].ask("run fail"), is: "failed", "the failure that trips")
        let what = "a process \(prober), after a trip \(tripper)"
        scene.expect(try scene.permit(for: puppets[1], what), is: "probe", what)
        let passed = (Scene.now() - start) / 1_000_000
        scene.expect(passed >= 1_000, "\(what): permitted after \(passed) ms of 1,000")
      }
    },
  ]
}

extension Scene {
  fileprivate func trip(
    _ name: String, _ how: String, seenBy puppets: [Puppet], by trip: (String) throws -> Void
  ) throws {
    try tell(puppets, "name \(name)")
    try tell(puppets, "open max-failures=3 open-for=10m")
    for answer in try puppets.ask("run ok") {
      expect(answer, is: "ok 42", "a call before the trip by \(how)")
    }
    try trip(name)
    for _ in 1...3 {
      try expectAllRejected(puppets, "after a trip by \(how)")
      // A write about another breaker does not change this one.
      try tell(puppets, "name elsewhere-\(name)")
      _ = try puppets.ask("run fail")
      try tell(puppets, "name \(name)")
    }
  }
}
