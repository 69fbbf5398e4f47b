import Glibc
import TestSupport

/// Scenarios of how many probes are under way, and for how long.
extension Scenario {
  static let ofProbes = [
    Scenario(
      name: "probes",
      summary: "no more than 'probes' are under way, and a live prober keeps its slot"
    ) { scene in
      try scene.probeAllAtOnce()
      for prober in Scene.Side.allCases { try scene.killProber(prober) }
    },
    Scenario(
      name: "deadline",
      summary:
        "a prober that never reports loses its slot at its deadline, alive or killed out of sight"
    ) { scene in
      for prober in Scene.Side.allCases {
        let (victim, heir) = (try scene.puppet(prober), try scene.puppet(.outside))
        try scene.trip([victim, heir], "victim-\(prober)", "open-for=500ms probe-timeout=500ms")
        let start = Scene.now()
        scene.expect(try scene.permit(for: victim, "a prober"), is: "probe", "a prober \(prober)")
        let isKilled = prober == .inside && !scene.environment.seesDeaths
        if isKilled { try scene.kill(victim) }
        let answer = try scene.permit(for: heir, "the next prober")
        let passed = (Scene.now() - start) / 1_000_000
        scene.expect(answer, is: "probe", "the next after a prober \(prober)")
        scene.expect(
          isKilled || passed >= 1_000, "the next was permitted after \(passed) ms of 1,000")
      }
    },
    Scenario(
      name: "reopening",
      summary: "no more than 'probes' are under way, however often a breaker has opened again"
    ) { scene in
      let puppets = try scene.puppets(each: 4)
      try scene.trip(puppets, "api", "open-for=200ms probes=2 probe-timeout=10m")
      var free = puppets
      var held = 0
      for round in 1...3 {
        // The first probe of a round goes on if there is a second one, which fails.
        let first = try scene.until("round \(round) has a prober") {
          try free.firstIndex { try $0.ask("acquire") == "probe" }
        }
        let slow = free.remove(at: first)
        let second = try free.firstIndex { try $0.ask("acquire") == "probe" }
        let underWay = held + (second == nil ? 1 : 2)
        scene.expect(underWay <= 2, "round \(round): \(underWay) probes of 2 are under way")
        if let second {
          _ = try free[second].ask("fail")
          held += 1
        } else {
          _ = try slow.ask("fail")
          free.append(slow)
        }
      }
    },
    Scenario(
      name: "hung probe",
      summary: "a probe that hangs locks nobody out, not even processes that only ask"
    ) { scene in
      for prober in Scene.Side.allCases {
        let name = "hung-\(prober)"
        let asker = try scene.puppet(prober == .outside ? .inside : .outside)
        try scene.trip([asker], name, "open-for=500ms probe-timeout=500ms")
        _ = try scene.until("'acquire' \(prober) is a probe") {
          try scene.cbctl(prober, "acquire \(name)").code == 0 ? true : nil
        }
        for side in Scene.Side.allCases {
          let wait = try scene.cbctl(side, "wait \(name) --state permitted --timeout 30s")
          guard wait.code == 0 else {
            throw SupportError("'wait' \(side) of a probe \(prober): \(wait.text.inOneLine)")
          }
          scene.expect(
            try scene.cbctl(side, "check \(name)"), hasCode: 0,
            "'check' \(side), after a probe \(prober) has hung")
        }
        scene.expect(try asker.ask("acquire"), is: "probe", "a call after a probe has hung")
      }
    },
    Scenario(
      name: "long job",
      summary:
        "a probe of 'cbctl run' lasts as long as its command, and its success closes the breaker"
    ) { scene in
      for side in Scene.Side.allCases {
        let name = "job-\(side)"
        let other = try scene.puppet(side == .outside ? .inside : .outside)
        try scene.trip([other], name, "open-for=200ms probe-timeout=2s")
        // `check` takes no probe, so the job gets it.
        _ = try scene.until("'check' is permitted") {
          try scene.cbctl(side, "check \(name)").code == 0 ? true : nil
        }
        let start = Scene.now()
        let job = try scene.start(side, "run \(name) -- sleep 3")
        _ = try scene.until("the job \(side) is a probe") {
          try other.ask("state") == "half_open" ? true : nil
        }
        var answer = ""
        repeat {
          answer = try other.ask("acquire")
        } while answer.hasPrefix("rejected") && Scene.now() - start < 3_000_000_000
        // After three seconds the job may be over.
        scene.expect(
          answer.hasPrefix("rejected") || Scene.now() - start >= 3_000_000_000,
          "beside the job \(side): \(answer)")
        _ = try job.rest()
        scene.expect(job.waitForEnd() == 0, "the job \(side) failed")
        scene.expect(try other.ask("state"), is: "closed", "after the job \(side)")
        scene.expect(
          try Database.transitions(scene.store, from: "half_open", to: "open", of: name), is: 0,
          "reopenings while the job \(side) ran")
      }
    },
  ]
}

extension Scene {
  /// Opens a breaker by one failure.
  func trip(_ puppets: [Puppet], _ name: String, _ policy: String) throws {
    try tell(puppets, "name \(name)")
    try tell(puppets, "open max-failures=1 \(policy)")
    expect(try puppets[0].ask("run fail"), is: "failed", "the failure that trips")
  }

  fileprivate func probeAllAtOnce() throws {
    let puppets = try puppets(each: 3)
    try trip(puppets, "race", "open-for=500ms probes=2 probe-timeout=10m")
    var granted = 0
    _ = try until("a probe is granted") {
      granted += try puppets.ask("acquire").count("probe")
      return granted > 0 ? true : nil
    }
    for _ in 1...5 {
      granted += try puppets.ask("acquire").count("probe")
      try tell(puppets, "name elsewhere")
      _ = try puppets.ask("run fail")
      try tell(puppets, "name race")
    }
    expect(granted, is: 2, "probes under way of six processes that asked at once")
  }

  /// Kills one of two probers; no process may get the slot of the other one.
  fileprivate func killProber(_ side: Side) throws {
    let victim = try puppet(side)
    let living = try puppet(side == .outside ? .inside : .outside)
    let others = try Side.allCases.map { try puppet($0) }
    let name = "prober-\(side)"
    try trip([victim, living] + others, name, "open-for=200ms probes=2 probe-timeout=10m")
    expect(try permit(for: victim, "a prober \(side)"), is: "probe", "the first call \(side)")
    expect(try living.ask("acquire"), is: "probe", "the second call")
    for _ in 1...3 {
      for (other, answer) in zip(Side.allCases, try others.ask("acquire")) {
        expect(answer.hasPrefix("rejected half_open"), "\(other) of two live probers: \(answer)")
      }
    }
    try kill(victim)
    // If no process can see that the prober was killed, its slot is free at its deadline.
    let isSeen = environment.seesDeaths || side == .outside
    var answer = try others[0].ask("acquire")
    // A process in a namespace dies a moment after the command that started it. Only that command
    // can be waited for.
    for _ in 1...1_000 where isSeen && answer.hasPrefix("rejected half_open") {
      usleep(10_000)
      answer = try others[0].ask("acquire")
    }
    if isSeen {
      expect(answer, is: "probe", "an outsider, after a prober \(side) was killed")
    }
    let taken = answer == "probe" ? 1 : 0
    let more = try others.ask("acquire").count("probe")
    expect(taken + more <= 1, "one prober was killed, and \(taken + more) took its place")
  }
}
